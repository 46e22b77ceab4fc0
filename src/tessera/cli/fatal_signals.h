// What would end a program without a word.
#pragma once

namespace tessera {

// For main. A file that grows beyond `ulimit -f` fails as on a full disk, and a mapped file that another
// process makes shorter is spoken of before the program ends.
void speak_of_fatal_signals();

}  // namespace tessera
