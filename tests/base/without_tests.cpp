// A program whose tests were left out by mistake: it must not pass.
#include "check.h"

TEST_MAIN()
