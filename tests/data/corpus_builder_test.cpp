#include "tessera/data/corpus_builder.h"

#include <gtest/gtest.h>

#include "data/pretokenizer.h"
#include "data/scratch_folder.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/indexed_dataset_writer.h"

namespace tessera {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kEnd = 0;

EncodeFunction make_gpt2_like_encoder() {
  const auto pretokenizer = std::make_shared<const Pretokenizer>(kGpt2Pattern);
  return [pretokenizer](std::string_view text, Ids& ids) { pretokenizer->encode(text, ids); };
}

Ids encode_document(std::string_view text) {
  Ids ids;
  make_gpt2_like_encoder()(text, ids);
  ids.push_back(kEnd);
  return ids;
}

class CorpusBuilderTest : public testing::Test {
 protected:
  CorpusSummary build(const std::vector<std::filesystem::path>& files, CorpusOptions options,
                      int num_threads = 2) {
    options.vocab_size = 50000;
    options.end_of_document_id = kEnd;
    ThreadPool pool(num_threads);
    return build_corpus(pool, files, folder_ / "out", options, make_gpt2_like_encoder);
  }

  // The documents of the built corpus are exactly these texts.
  void expect_documents(const std::vector<std::string>& texts) {
    const IndexedDataset corpus(folder_ / "out");
    ASSERT_EQ(corpus.num_sequences(), std::ssize(texts));
    ASSERT_EQ(corpus.num_documents(), std::ssize(texts));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(corpus.sequence(static_cast<std::int64_t>(i)), encode_document(texts[i])) << "document " << i;
    }
  }

  template <class... Parts>
  void expect_json_refused(const std::string& lines, const Parts&... parts) {
    put_file(folder_ / "in.jsonl", lines);
    expect_error([&] { build({folder_ / "in.jsonl"}, {.chunk_bytes = 4}); }, parts...);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.bin"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.idx"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.bin.partial"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.idx.partial"));
  }

  ScratchFolder folder_;
};

TEST_F(CorpusBuilderTest, OneAtATimeWritesAPair) {
  put_file(folder_ / "in.txt", "of the second");
  {
    IndexedDatasetWriter first(folder_ / "out", TokenDType::u16);
    expect_error([&] { build({folder_ / "in.txt"}, {}); }, "another process is writing", "out.bin");
    first.add_document(encode_document("of the first"));
    first.finish();
  }
  expect_documents({"of the first"});
  build({folder_ / "in.txt"}, {});
  expect_documents({"of the second"});
}

TEST_F(CorpusBuilderTest, AFileInChunksHasTheIdsOfTheWhole) {
  const std::vector<std::string> texts = {awkward_text(1, 3000), "one small text\n", awkward_text(2, 500)};
  std::vector<std::filesystem::path> files;
  for (const std::string& text : texts) {
    files.push_back(folder_ / ("in" + std::to_string(files.size()) + ".txt"));
    put_file(files.back(), text);
  }
  for (const std::int64_t chunk_bytes : {1, 5, 64, 1000, 1 << 20}) {
    for (const int num_threads : {1, 2, 5}) {
      const CorpusSummary summary = build(files, {.chunk_bytes = chunk_bytes}, num_threads);
      expect_documents(texts);
      EXPECT_EQ(summary.num_documents, 3);
      EXPECT_EQ(summary.num_bytes, std::ssize(texts[0]) + std::ssize(texts[1]) + std::ssize(texts[2]));
      EXPECT_EQ(summary.num_tokens, IndexedDataset(folder_ / "out").num_tokens());
    }
  }
}

TEST_F(CorpusBuilderTest, LinesAndParagraphsAreDocuments) {
  put_file(folder_ / "in.txt", "\n \none line\ntwo lines\r\n\r\n  third  \n\t\n\n\nlast one\nno newline");
  for (const std::int64_t chunk_bytes : {1, 2, 9, 20, 1000}) {
    build({folder_ / "in.txt"}, {.documents = TextDocuments::line, .chunk_bytes = chunk_bytes});
    expect_documents({"one line", "two lines", "  third  ", "last one", "no newline"});
    build({folder_ / "in.txt"}, {.documents = TextDocuments::paragraph, .chunk_bytes = chunk_bytes});
    expect_documents({"one line\ntwo lines", "  third  ", "last one\nno newline"});
  }
}

// As of BERT's vocabulary, to which white space is nothing. Chunks: parts of one document without ids, too.
TEST_F(CorpusBuilderTest, AFileWithoutIdsIsNoDocument) {
  put_file(folder_ / "blank.txt", " \n\n a \n a a\n");
  put_file(folder_ / "in.txt", "  a x a  a a a a b");
  put_file(folder_ / "last.txt", "  a a a");
  const auto encoder = [] {
    return [](std::string_view text, Ids& ids) {
      for (const char c : text) {
        if (c != ' ' && c != '\n' && c != 'a') ids.push_back(c);
      }
    };
  };
  ThreadPool pool(2);
  for (const bool cut_files : {true, false}) {
    for (const std::int64_t chunk_bytes : {1, 5, 1000}) {
      const auto build_of = [&](const std::vector<std::filesystem::path>& files) {
        return build_corpus(pool, files, folder_ / "out",
                            {.vocab_size = 200,
                             .end_of_document_id = kEnd,
                             .chunk_bytes = chunk_bytes,
                             .cut_files = cut_files},
                            encoder);
      };
      const CorpusSummary summary =
          build_of({folder_ / "blank.txt", folder_ / "in.txt", folder_ / "blank.txt", folder_ / "in.txt",
                    folder_ / "last.txt"});
      EXPECT_EQ(summary.num_documents, 2);
      EXPECT_EQ(summary.num_empty_documents, 3);
      EXPECT_EQ(summary.num_tokens, 6);
      const IndexedDataset corpus(folder_ / "out");
      ASSERT_EQ(corpus.num_sequences(), 2);
      for (int i = 0; i < 2; ++i) EXPECT_EQ(corpus.sequence(i), (Ids{'x', 'b', kEnd}));
      expect_error([&] { build_of({folder_ / "blank.txt"}); }, "no documents found in the 1 input files");
    }
  }
}

TEST_F(CorpusBuilderTest, JsonLinesKeepTheirOrder) {
  std::string lines;
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    texts.push_back("document " + std::to_string(i) + std::string(static_cast<std::size_t>(i % 50), 'x'));
    lines += R"({"id": )" + std::to_string(i) + R"(, "text": ")" + texts.back() + "\"}\n";
  }
  put_file(folder_ / "in.jsonl", lines);
  for (const std::int64_t chunk_bytes : {1, 100, 1 << 20}) {
    for (const int num_threads : {1, 3}) {
      build({folder_ / "in.jsonl"}, {.chunk_bytes = chunk_bytes}, num_threads);
      expect_documents(texts);
    }
  }
}

TEST_F(CorpusBuilderTest, JsonStringsAreDecoded) {
  put_file(folder_ / "in.data",
           "\n{\"body\": \"tab\\there \\u00e9 \\ud83d\\ude00\\n\"}\r\n{\"body\": \"\"}\n\n{\"body\":\"b\"}");
  const CorpusSummary summary =
      build({folder_ / "in.data"}, {.format = CorpusFormat::json_lines, .json_key = "body"});
  expect_documents({"tab\there \u00e9 \U0001f600\n", "b"});
  EXPECT_EQ(summary.num_empty_documents, 1);
}

TEST_F(CorpusBuilderTest, FormatFollowsTheExtensionUnlessGiven) {
  const std::string line = R"({"text": "x"})";
  put_file(folder_ / "in.jsonl", line);
  build({folder_ / "in.jsonl"}, {});
  expect_documents({"x"});
  build({folder_ / "in.jsonl"}, {.format = CorpusFormat::text});
  expect_documents({line});
}

// json.dumps({"score": math.nan, ...}) of Python.
TEST_F(CorpusBuilderTest, PythonsNumbersThatJsonDoesNotKnowAreRead) {
  expect_json_refused("{\"text\": NaN}\n", "in.jsonl:1:", "found null", "expected a string");
  for (const char* bad : {"nan", "NaNs", "+Infinity", "--Infinity", "Inf", "1NaN"})
    expect_json_refused(std::string("{\"text\": \"x\", \"n\": ") + bad + "}\n",
                        "in.jsonl:1:", "not valid JSON", bad);
  put_file(folder_ / "in.jsonl",
           "{\"score\": NaN, \"text\": \"a NaN \\\" NaN\", \"all\": [Infinity, -Infinity,NaN]}\n"
           "{\"-Infinity\": -Infinity, \"text\": \"b\\\\\", \"n\": NaN}\n");
  build({folder_ / "in.jsonl"}, {});
  expect_documents({"a NaN \" NaN", "b\\"});
}

TEST_F(CorpusBuilderTest, BadJsonNamesFileAndLine) {
  const std::string good = "{\"text\": \"fine\"}\n";
  expect_json_refused(good + "\n" + good + "{\"text\": \"broken}\n" + good, "in.jsonl:4:", "not valid JSON",
                      "{\"text\": \"broken}");
  expect_json_refused(good + "{\"content\": \"x\", \"id\": 1}\n", "in.jsonl:2:", "no key \"text\"",
                      "\"content\", \"id\"");
  expect_json_refused("{\"text\": 17}\n" + good, "in.jsonl:1:", "found number", "expected a string");
  expect_json_refused(good + good + "[1, 2]", "in.jsonl:3:", "found array", "object");
  expect_json_refused(good + "{\"text\": \"\xff\xfe\"}", "in.jsonl:2:", "not valid JSON");
  expect_json_refused(good + "{\"text\": \"x\"} trailing", "in.jsonl:2:", "not valid JSON");
  expect_json_refused(good + "{\"n\": 1e999999, \"text\": \"x\"}", "in.jsonl:2:", "not valid JSON");
  expect_json_refused(good + "{\"text\":\n\"x\"}\n", "in.jsonl:2:", "not valid JSON");
}

TEST_F(CorpusBuilderTest, TheFirstBadLineIsReported) {
  std::string lines;
  for (int i = 1; i <= 200; ++i) lines += i % 50 == 0 ? "bad\n" : "{\"text\": \"fine\"}\n";
  expect_json_refused(lines, "in.jsonl:50:");
}

TEST_F(CorpusBuilderTest, ReportsProgressUpToTheEnd) {
  put_file(folder_ / "in.txt", awkward_text(3, 2000));
  put_file(folder_ / "empty.txt", "");
  const auto total = static_cast<std::int64_t>(std::filesystem::file_size(folder_ / "in.txt"));
  std::vector<std::int64_t> done;
  ThreadPool pool(2);
  build_corpus(pool, {folder_ / "in.txt", folder_ / "empty.txt"}, folder_ / "out",
               {.vocab_size = 50000, .chunk_bytes = 100}, make_gpt2_like_encoder,
               [&](std::int64_t bytes_done, std::int64_t bytes_total) {
                 EXPECT_EQ(bytes_total, total);
                 done.push_back(bytes_done);
               });
  ASSERT_GT(done.size(), 3u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), total);
}

TEST_F(CorpusBuilderTest, ALargeVocabularyIsStoredAsInt32) {
  put_file(folder_ / "in.txt", "x");
  ThreadPool pool(1);
  const auto encoder = [] { return [](std::string_view, Ids& ids) { ids.push_back(128000); }; };
  build_corpus(pool, {folder_ / "in.txt"}, folder_ / "out",
               {.vocab_size = 128256, .end_of_document_id = 128001}, encoder);
  const IndexedDataset corpus(folder_ / "out");
  EXPECT_EQ(corpus.dtype(), TokenDType::i32);
  EXPECT_EQ(corpus.sequence(0), (Ids{128000, 128001}));
}

TEST_F(CorpusBuilderTest, RefusesBadInput) {
  put_file(folder_ / "in.txt", "some text");
  put_file(folder_ / "blank.txt", "\n\n  \n");
  ThreadPool pool(2);
  const auto build_with = [&](const std::filesystem::path& file, const CorpusOptions& options) {
    build_corpus(pool, {file}, folder_ / "out", options, make_gpt2_like_encoder);
  };
  expect_error([&] { build_with(folder_ / "missing.txt", {.vocab_size = 50000}); }, "missing.txt",
               "No such file");
  expect_error([&] { build_with(folder_ / ".", {.vocab_size = 50000}); }, "not a regular file");
  expect_error(
      [&] { build_with(folder_ / "blank.txt", {.documents = TextDocuments::line, .vocab_size = 50000}); },
      "no documents");
  expect_error([&] { build_with(folder_ / "in.txt", {.vocab_size = 10}); }, "in.txt", "10 ids");
  expect_error([&] { build_with(folder_ / "in.txt", {.vocab_size = 10, .end_of_document_id = 10}); },
               "end_of_document_id", "found 10");
  expect_error([&] { build_with(folder_ / "in.txt", {.vocab_size = 50000, .chunk_bytes = 0}); },
               "chunk_bytes");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.bin.partial"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.bin"));
}

}  // namespace
}  // namespace tessera
