#include "tessera/base/atomic_file.h"
#include "tessera/base/mapped_file.h"
#include "tessera/cli/data_commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

int data_tokenize_command(int argc, const char* const* argv) {
  std::string in, out, tokenizer_path;
  Options options("tessera data tokenize", "Write the ids of one text as raw little-endian int32.");
  options.option("--tokenizer PATH", &tokenizer_path, kTokenizerHelp);
  options.option("--in FILE", &in, "the text");
  options.option("--out FILE", &out, "where to write");
  options.require({"--tokenizer", "--in", "--out"});
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(tokenizer_path);
  std::vector<NamedFile> inputs = tokenizer_inputs(tokenizer_path);
  inputs.push_back({"--in", in});
  check_outputs(inputs, {{"--out", out}});
  std::vector<std::int32_t> ids;
  tokenizer->make_encoder()->encode(read_file(in), ids);
  AtomicFile file(out);
  file.write(ids.data(), ids.size() * sizeof(std::int32_t));
  file.commit();
  std::printf("%zu ids in %s\n", ids.size(), out.c_str());
  return 0;
}

}  // namespace tessera
