// Brings conversations into a form that a chat template takes.
//
// Templates differ in what they take besides one system message and turns of the user and the assistant: some raise an
// exception at a second or a late system message, at two messages of the user in a row, or at ids of calls that are not
// nine letters; others lose the text in silence. Which they take is found by rendering small conversations once.
#pragma once

#include <functional>
#include <string>

namespace specdec {

class ConversationForm {
 public:
  // Renders a list of messages in JSON; throws if the template rejects it.
  using Render = std::function<std::string(const std::string& messages)>;

  // Asks the template. If it rejects even a single message of the user, conversations are left as they are.
  explicit ConversationForm(const Render& render);

  // The messages in a form that the template takes: no text is dropped, and only what the template does not take is
  // changed.
  //  - System messages at the beginning become one; a later one becomes the user's, in its place. One that interrupts
  //    the results of calls moves behind them. So does the first if the template has none for the system.
  //  - Messages in a row from the same side become one, separated by an empty line.
  //  - Where the template wants a message of the other side, an empty one is inserted.
  //  - Results of calls without an id get that of the first open call. Those that follow no call become the user's.
  //  - Where the template knows no calls, they become JSON in their message, and their results the user's.
  //  - Ids of calls become nine letters and digits, the same for the same id.
  // Messages that are not objects with a role and a text are left alone. Bad JSON is returned as it is.
  std::string fit(const std::string& messages) const;

 private:
  bool takes_first_system_ = true, takes_two_systems_ = true, takes_late_systems_ = true;
  bool takes_no_user_ = true, takes_assistant_first_ = true;
  bool takes_users_in_a_row_ = true, takes_assistants_in_a_row_ = true;
  bool takes_user_after_result_ = true, takes_any_call_id_ = true;
  bool takes_calls_ = true, takes_lone_results_ = true;
};

}  // namespace specdec
