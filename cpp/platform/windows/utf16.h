// Converts between Windows' UTF-16 and our UTF-8.
#pragma once

#include <windows.h>

#include <string>
#include <string_view>
#include <system_error>

namespace specdec {

inline std::wstring to_utf16(std::string_view text) {
  const int bytes = static_cast<int>(text.size());
  std::wstring wide(text.size(), L'\0');  // never longer
  const int count = MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, wide.data(), static_cast<int>(wide.size()));
  wide.resize(static_cast<std::size_t>(count));
  return wide;
}

inline std::string to_utf8(std::wstring_view wide) {
  std::string text(3 * wide.size(), '\0');  // never longer
  const int count = WideCharToMultiByte(CP_UTF8, 0, wide.data(), static_cast<int>(wide.size()), text.data(),
                                        static_cast<int>(text.size()), nullptr, nullptr);
  text.resize(static_cast<std::size_t>(count));
  return text;
}

inline std::string system_message(DWORD error) { return std::system_category().message(static_cast<int>(error)); }

}  // namespace specdec
