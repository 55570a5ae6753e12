# Completion of `tensorbus` for fish. The command itself prints the words: commands, options, and
# the topics, nodes, queues and services that exist now. Where there are none, fish lists files.

function __tensorbus_finds
    set -lx _TENSORBUS_COMPLETE complete_fish
    set -lx _TYPER_COMPLETE_FISH_ACTION get-args
    set -lx _TYPER_COMPLETE_ARGS (commandline --current-process --cut-at-cursor)
    set -g __tensorbus_words (tensorbus 2>/dev/null)
    test -n "$__tensorbus_words"
end

complete --command tensorbus --no-files --condition __tensorbus_finds \
    --arguments '(string join \n $__tensorbus_words)'
