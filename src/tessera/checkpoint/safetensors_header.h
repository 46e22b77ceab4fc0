// SafetensorsHeader: what the front of a safetensors file says, checked against the file's size.
//
// The format: u64 length of the header, the header as JSON padded with spaces, then the tensors' bytes
// back to back. Used by the reader and the writer of safetensors.h and by nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/stored_dtype.h"

namespace tessera {

struct SafetensorsEntry {
  std::string name;
  StoredDType dtype = StoredDType::f32;
  Shape shape;
  std::int64_t begin = 0;  // bytes, counted from the first byte after the header
  std::int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;
  std::int64_t header_bytes = 0;  // where the tensors start
};

// Takes the whole file's bytes. Throws an Error that begins with `file_name` unless the header is
// sound and the tensors fill the rest of the file exactly, without overlap or hole.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name);

// The first bytes of a file with these tensors, length included; a multiple of 8 bytes long.
std::string format_safetensors_header(std::span<const SafetensorsEntry> entries,
                                      const std::map<std::string, std::string>& metadata,
                                      const std::string& file_name);

}  // namespace tessera
