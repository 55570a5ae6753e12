#pragma once

#include <CLI/CLI.hpp>

namespace tensorbus::cli {

// Prints the words that may stand at the end of a command line, if the script of a shell asks for
// them (cli/completion): commands, options, and the names that exist on the domain now. Returns
// false if no script asks. A shell that gets no words completes names of files.
//
//   $_TENSORBUS_COMPLETE     complete_bash: the words up to the cursor are in $COMP_WORDS, one line
//                            for each word that fits
//                            complete_fish: they are in $_TYPER_COMPLETE_ARGS; each line has the
//                            word, a tab, and its help
bool complete(const CLI::App& all);

}  // namespace tensorbus::cli
