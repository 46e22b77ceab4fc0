// Bytes as TensorBoard's own protocol buffers and record writer make them (tensorboard 2.21,
// tensorboard.compat.proto and tensorboard.summary.writer.record_writer). tests/cli reads whole files back
// with the real TensorBoard.
#include "tessera/metrics/event_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"
#include "tessera/metrics/tf_record.h"

namespace tessera {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

TEST(TfRecord, ChecksumsAreThoseOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TfRecord, FramesAsTheOriginalDoes) {
  EXPECT_EQ(hex(tf_record("tessera")), "0700000000000000bbd79f1174657373657261d41d07ac");
}

TEST(EventMessage, HasTheBytesOfTheOriginal) {
  EXPECT_EQ(hex(version_event(1.5)), "09000000000000f83f1a0d627261696e2e4576656e743a32");
  EXPECT_EQ(hex(session_start_event(1.5, 301)), "09000000000000f83f10ad023a020801");
  const std::vector<TaggedScalar> scalars{{"step loss", 0.1}, {"lr", 3e-4}};
  EXPECT_EQ(hex(scalars_event(1.5, 300, scalars)),
            "09000000000000f83f10ac022a1d0a100a0973746570206c6f737315cdcccc3d0a090a026c721552499d39");
  EXPECT_EQ(hex(text_event(1.5, 7, "config/text_summary", "a: 1\n")),
            "09000000000000f83f10072a340a320a13636f6e6669672f746578745f73756d6d617279420f080712041202080142"
            "05613a20310a4a0a0a060a04746578742002");
}

TEST(EventFile, AResumedRunAddsAFileThatSortsBehindTheOthers) {
  TemporaryFolder folder;
  const std::filesystem::path events = folder.path() / "tensorboard";
  std::vector<std::string> made;
  for (const std::int64_t resumed : {0, 4, 8}) {
    EventFile file(events, resumed);
    file.append_scalars(1.5, resumed + 1, std::vector<TaggedScalar>{{"lr", 1}});
    made.push_back(file.path().filename().string());
  }
  EXPECT_EQ(names_in(events), made);
  for (const std::string& name : made) EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;
}

TEST(EventFile, ANewRunRemovesTheEventsOfTheOldOneAndNothingElse) {
  TemporaryFolder folder;
  { EventFile old(folder.path(), 0); }
  folder.write("notes.txt", "mine");
  EventFile file(folder.path(), 0);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{file.path().filename().string(), "notes.txt"}));
}

TEST(EventFile, AFolderThatCannotBeMadeIsNamed) {
  TemporaryFolder folder;
  folder.write("taken", "a file");
  expect_error([&] { EventFile(folder.path() / "taken" / "tensorboard", 0); },
               {(folder.path() / "taken").string(), "cannot create folder"});
}

}  // namespace
}  // namespace tessera
