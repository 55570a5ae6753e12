# Completion of `tensorbus` for bash. The command itself prints the words: commands, options, and
# the topics, nodes, queues and services that exist now. Names are data: none is evaluated.

_tensorbus() {
    local line=${COMP_LINE:0:COMP_POINT} IFS=$' \t\n' before='' found
    local -a words
    # Not COMP_WORDS, which bash splits at the colons of names.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local last=${words[-1]}
    [[ $COMP_WORDBREAKS == *:* ]] && before=${last%"${last##*:}"}
    COMPREPLY=()
    while IFS= read -r found; do
        [[ $found ]] && COMPREPLY+=("$(printf %q "${found#"$before"}")")
    done < <(COMP_WORDS=${words[*]} COMP_CWORD=$((${#words[@]} - 1)) \
        _TENSORBUS_COMPLETE=complete_bash "$1" 2>/dev/null)
}

complete -o default -F _tensorbus tensorbus
