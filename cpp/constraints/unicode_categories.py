"""Writes unicode_categories.cpp, general categories and letters of scripts, from Python's own table (no arguments)."""

import pathlib
import sys
import unicodedata

# By the names of letters, which is narrower than Unicode's own scripts: nothing of another script is in them.
SCRIPTS = {
    "Arabic": "ARABIC LETTER ",
    "Armenian": "ARMENIAN ",
    "Bengali": "BENGALI ",
    "Cyrillic": "CYRILLIC ",
    "Devanagari": "DEVANAGARI ",
    "Georgian": "GEORGIAN ",
    "Greek": "GREEK ",
    "Han": "CJK UNIFIED IDEOGRAPH",
    "Hangul": "HANGUL ",
    "Hebrew": "HEBREW ",
    "Hiragana": "HIRAGANA LETTER ",
    "Katakana": "KATAKANA LETTER ",
    "Latin": "LATIN ",
    "Thai": "THAI CHARACTER ",
}


def runs(of_character) -> list[tuple[int, str]]:
    """(first code point, value) of each stretch of characters with one value."""
    found: list[tuple[int, str]] = []
    for code in range(sys.maxunicode + 1):
        value = of_character(chr(code))
        if not found or found[-1][1] != value:
            found.append((code, value))
    return found


def script(character: str) -> str:
    if not unicodedata.category(character).startswith("L"):
        return ""
    name = unicodedata.name(character, "")
    return next((script for script, start in SCRIPTS.items() if name.startswith(start)), "")


def lines(entries: list[str]) -> str:
    text, line = "", "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 120:
            text, line = text + line + "\n", "   "
        line += f" {entry},"
    return text + line + "\n"


def main() -> None:
    path = pathlib.Path(__file__).with_suffix(".cpp")
    categories = [f'{{0x{code:X}, "{value}"}}' for code, value in runs(unicodedata.category)]
    scripts = [f'{{0x{code:X}, "{value}"}}' for code, value in runs(script)]
    path.write_text(
        f"// Written by unicode_categories.py from Unicode {unicodedata.unidata_version}; do not edit.\n"
        '#include "constraints/unicode_categories.h"\n\n'
        "namespace specdec {\n\n// clang-format off\n"
        f"const std::vector<UnicodeRun> unicode_categories = {{\n{lines(categories)}}};\n\n"
        f"const std::vector<UnicodeRun> unicode_scripts = {{\n{lines(scripts)}}};\n"
        "// clang-format on\n\n}  // namespace specdec\n"
    )


if __name__ == "__main__":
    main()
