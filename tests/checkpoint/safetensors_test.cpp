#include "tessera/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/temporary_folder.h"
#include "tessera/base/mapped_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(TESSERA_SOURCE_DIR) / "tests/checkpoint/golden";

template <class T>
std::vector<T> read_as(const SafetensorsReader& reader, const std::string& name) {
  const Shape shape = reader.info(name).shape;
  std::vector<T> values(static_cast<std::size_t>(shape.num_elems()));
  reader.read(name, {values.data(), dtype_of<T>, shape});
  return values;
}

// All tensors of a file, in memory of their own, in the dtype they were stored in.
struct Tensors {
  std::vector<NamedTensor> named;
  std::vector<std::vector<double>> storage;  // of doubles, so that any dtype is aligned
};

Tensors read_all(const SafetensorsReader& reader) {
  Tensors all;
  for (const std::string& name : reader.names()) {
    const StoredTensor& stored = reader.info(name);
    all.storage.emplace_back(stored.bytes.size() / sizeof(double) + 1);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32}) {
      if (stored_dtype_of(dtype) != stored.dtype) continue;
      all.named.push_back({name, {all.storage.back().data(), dtype, stored.shape}});
      reader.read(name, all.named.back().tensor);
    }
  }
  return all;
}

// Reads a file that Hugging Face's own package wrote, writes the tensors in reverse order, and expects
// the package's bytes again: header layout, tensor order, padding and escapes all agree.
void expect_same_bytes_when_rewritten(const fs::path& file) {
  SCOPED_TRACE(file.string());
  const SafetensorsReader reader(file);
  Tensors all = read_all(reader);
  ASSERT_EQ(all.named.size(), reader.names().size());
  std::ranges::reverse(all.named);
  const TemporaryFolder folder;
  const FileDigest digest = write_safetensors(folder.path() / "again", all.named, reader.metadata());
  const std::string written = bytes_of(folder.path() / "again");
  EXPECT_TRUE(written == bytes_of(file));
  EXPECT_EQ(digest, digest_of(std::as_bytes(std::span(written))));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"again"});
}

TEST(Safetensors, RewritesTheBytesThatHuggingFaceWrote) {
  expect_same_bytes_when_rewritten(kGolden / "writable.safetensors");
  expect_same_bytes_when_rewritten(kGolden / "sharded/model-00001-of-00002.safetensors");
  expect_same_bytes_when_rewritten(kGolden / "sharded/model-00002-of-00002.safetensors");
}

TEST(Safetensors, RewritesTheGoldenModels) {
  int found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(TESSERA_SOURCE_DIR) / "tests/golden")) {
    if (entry.path().filename() != "model.safetensors") continue;
    expect_same_bytes_when_rewritten(entry.path());
    ++found;
  }
  EXPECT_EQ(found, 8);
}

TEST(Safetensors, ReadsEveryDtypeWithConversion) {
  const SafetensorsReader reader(kGolden / "mixed.safetensors");
  EXPECT_EQ(reader.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  const std::vector<double> reals = {1.5, -2.0, 0.0, -0.0, 3.140625, 1024.0};
  for (const char* name : {"real.f32", "real.f64", "real.f16", "real.bf16"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(reader.info(name).shape, (Shape{2, 3}));
    EXPECT_EQ(read_as<double>(reader, name), reals);
    EXPECT_TRUE(std::signbit(read_as<double>(reader, name)[3]));
    EXPECT_EQ(read_as<float>(reader, name), std::vector<float>(reals.begin(), reals.end()));
    const auto halves = read_as<Bf16>(reader, name);
    for (std::size_t i = 0; i < reals.size(); ++i) EXPECT_EQ(static_cast<float>(halves[i]), reals[i]);
  }
  for (const char* name : {"whole.i32", "whole.i64"}) {
    EXPECT_EQ(read_as<std::int32_t>(reader, name), (std::vector<std::int32_t>{-7, 0, 2147483647}));
  }
  EXPECT_EQ(read_as<float>(reader, "scalar"), std::vector<float>{2.5f});
  EXPECT_EQ(reader.info("scalar").shape.rank(), 0);
  EXPECT_EQ(reader.info("empty").shape, (Shape{0, 4}));
  EXPECT_TRUE(read_as<float>(reader, "empty").empty());
}

TEST(Safetensors, NamesComeInFileOrder) {
  const SafetensorsReader reader(kGolden / "mixed.safetensors");
  const std::vector<std::string> expected = {"beyond.i64", "whole.i64", "real.f64",  "empty",    "real.f32",
                                             "scalar",     "whole.i32", "real.bf16", "real.f16", "mask.u8"};
  EXPECT_EQ(reader.names(), expected);
  EXPECT_TRUE(reader.contains("scalar"));
  EXPECT_FALSE(reader.contains("Scalar"));
}

TEST(Safetensors, RefusesWhatDoesNotMatchTheDestination) {
  const fs::path file = kGolden / "mixed.safetensors";
  const SafetensorsReader reader(file);
  std::vector<double> memory(16);
  const auto read = [&](const char* name, DType dtype, const Shape& shape) {
    return [&reader, &memory, name, dtype, shape] { reader.read(name, {memory.data(), dtype, shape}); };
  };
  expect_error(read("absent", DType::f32, {2}),
               {file.string(), "\"absent\"", "found 10 tensors, none of this name"});
  expect_error(read("real.f16", DType::f32, {3, 2}),
               {file.string(), "\"real.f16\"", "found F16 [2,3]", "expected f32 [3,2]"});
  expect_error(read("real.f32", DType::f32, {6}), {"found F32 [2,3]", "expected f32 [6]"});
  expect_error(read("real.f32", DType::i32, {2, 3}), {"found F32 [2,3]", "expected i32 [2,3]"});
  expect_error(read("whole.i32", DType::f32, {3}), {"found I32 [3]", "expected f32 [3]"});
  expect_error(read("mask.u8", DType::i32, {3}), {"found U8 [3]", "expected i32 [3]"});
  expect_error(read("beyond.i64", DType::i32, {2}), {file.string(), "\"beyond.i64\"", "2147483648", "i32"});
}

TEST(Safetensors, EqualTensorsMakeEqualFilesOfAlignedTensors) {
  std::vector<Bf16> halves(3);
  std::vector<double> doubles(5);
  std::vector<float> floats(7);
  std::vector<NamedTensor> tensors = {{"a", {halves.data(), DType::bf16, {3}}},
                                      {"b", {doubles.data(), DType::f64, {5}}},
                                      {"c", {floats.data(), DType::f32, {7, 1}}}};
  const TemporaryFolder folder;
  const FileDigest forward = write_safetensors(folder.path() / "1", tensors);
  std::ranges::reverse(tensors);
  EXPECT_EQ(write_safetensors(folder.path() / "2", tensors), forward);

  const std::string bytes = bytes_of(folder.path() / "1");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
  EXPECT_EQ(bytes[8], '{');
  EXPECT_EQ(bytes.find("__metadata__"), std::string::npos);
  const SafetensorsReader reader(folder.path() / "1");
  for (const std::string& name : reader.names()) {
    const auto address = reinterpret_cast<std::uintptr_t>(reader.info(name).bytes.data());
    EXPECT_EQ(address % static_cast<std::uintptr_t>(stored_dtype_bytes(reader.info(name).dtype)), 0u) << name;
  }
}

// Gathered from ranks, say: one after the other, in the order of the file, on those that do not write, too.
TEST(Safetensors, MakesTensorsWhenTheirTurnComes) {
  const TemporaryFolder folder;
  std::vector<float> a = {1, 2}, b = {3}, c = {4, 5, 6};
  const auto view = [](std::vector<float>& values) {
    return TensorView{values.data(), DType::f32, {static_cast<std::int64_t>(values.size())}};
  };
  std::string made;
  const auto later = [&](const std::string& name, const std::vector<float>& values) {
    const TensorView shape_alone{nullptr, DType::f32, {static_cast<std::int64_t>(values.size())}};
    return NamedTensor{name, shape_alone, [&made, name, values] {
                         made += name;
                         return values;
                       }};
  };
  const FileDigest wanted = write_safetensors(
      folder.path() / "1", std::vector<NamedTensor>{{"a", view(a)}, {"b", view(b)}, {"c", view(c)}});
  const std::vector<NamedTensor> tensors = {later("c", c), {"b", view(b)}, later("a", a)};
  EXPECT_EQ(write_safetensors(folder.path() / "2", tensors), wanted);
  EXPECT_EQ(made, "ac");
  make_tensors(tensors);
  EXPECT_EQ(made, "acac");
}

TEST(Safetensors, WritesAFileWithoutTensors) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "none", {});
  EXPECT_EQ(bytes_of(folder.path() / "none"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_TRUE(SafetensorsReader(folder.path() / "none").names().empty());
}

TEST(Safetensors, RefusesToWriteWhatNobodyCouldRead) {
  float value = 0;
  const TensorView tensor{&value, DType::f32, {1}};
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  const auto write = [&](std::vector<NamedTensor> tensors, std::map<std::string, std::string> metadata = {}) {
    return [&file, tensors, metadata] { write_safetensors(file, tensors, metadata); };
  };
  expect_error(write({{"w", tensor}, {"w", tensor}}), {file.string(), "\"w\" twice"});
  expect_error(write({{"__metadata__", tensor}}), {file.string(), "__metadata__"});
  expect_error(write({{"\xff", tensor}}), {file.string(), "UTF-8"});
  expect_error(write({{"w", tensor}}, {{"config", "\xff"}}), {file.string(), "UTF-8"});
  expect_error([&] { write_safetensors(folder.path() / "no/folder", {}); }, {"no/folder", "No such file"});
  EXPECT_TRUE(names_in(folder.path()).empty());
}

}  // namespace
}  // namespace tessera
