// TFRecord: the framing of TensorBoard's event files: length, its checksum, bytes, their checksum. The
// checksums are CRC-32C (Castagnoli), rotated and shifted as the format asks, so that a checksum of bytes
// that hold checksums stays useful. Made for EventFile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

std::uint32_t crc32c(std::string_view bytes);

// The bytes of one record, ready to be appended to a file.
std::string tf_record(std::string_view payload);

}  // namespace tessera
