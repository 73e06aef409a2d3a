# Completion of hw4's options and their values, as its own --help, --version and --list-kernels tell them.
_hw4_words() {
    local words
    mapfile -t words < <(compgen -W "$1" -- "$2")
    COMPREPLY=("${words[@]}")
}

_hw4() {
    local program=$1 word=$2 before=$3
    case $before in
    --device) _hw4_words "auto gpu cpu" "$word" ;;
    --copies) _hw4_words "2d linear" "$word" ;;
    --contract | --arith)
        _hw4_words "$("$program" --version 2>/dev/null | grep -o '[a-z0-9]*\.forward' | cut -d. -f1)" "$word"
        ;;
    --kernel)
        _hw4_words "$("$program" --list-kernels 2>/dev/null | awk '{print $2}')" "$word"
        ;;
    *)
        if [[ $word == -* ]]; then
            _hw4_words "$("$program" --help 2>/dev/null | grep -oE -- '(^|[[ ])--[a-z][a-z-]*' | tr -d '[ ' | sort -u)" \
                "$word"
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
        ;;
    esac
}
complete -o filenames -F _hw4 hw4 hw4-seq hw4-compare
