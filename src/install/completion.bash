# Completion of hw4's options and their values, as its own --help, --version and --list-kernels tell them.
_hw4_words() {
    local words
    mapfile -t words < <(compgen -W "$1" -- "$2")
    COMPREPLY=("${words[@]}")
}

_hw4_files() {
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# _hw4_options WORD PROGRAM [bench [MEASUREMENT]|train]
_hw4_options() {
    local word=$1
    shift
    _hw4_words "$("$@" --help 2>/dev/null | grep -oE -- '(^|[[ ])--[a-z][a-z_-]*' | tr -d '[ ' | sort -u)" "$word"
}

# The names in what hw4 bench --help says of an option, and in the lines below.
_hw4_names() {
    "$1" bench ${3:+"$3"} --help 2>/dev/null | awk -v option="$2" '
        $1 == option { here = 1; $1 = $2 = "" }
        here && /^  -/ { exit }
        here' | tr ',;.' '\n\n\n'
}

_hw4_bench() {
    local program=$1 word=$2 before=$3 measurement=
    case ${COMP_WORDS[2]-} in accumulate | start-up | allreduce | step) measurement=${COMP_WORDS[2]} ;; esac
    case $before in
    --impl | --relative-to) _hw4_words "$(_hw4_names "$program" --impl | sed '/whatever/,$d')" "$word" ;;
    --preset) _hw4_words "$(_hw4_names "$program" --preset "$measurement" | awk '/^   /{print $1}')" "$word" ;;
    --dtype) _hw4_words "float32 fp16 bf16" "$word" ;;
    --passes) _hw4_words "forward backward forward_backward" "$word" ;;
    --via) _hw4_words "mpi nccl ordered" "$word" ;;
    --ways) _hw4_words "naive flat bucketed overlapped" "$word" ;;
    --timing) _hw4_words "event wall" "$word" ;;
    *)
        if [[ $word == -* ]]; then
            _hw4_options "$word" "$program" bench ${measurement:+"$measurement"}
        elif [[ $before == bench ]]; then
            _hw4_words "accumulate start-up allreduce step" "$word"
        else
            _hw4_files "$word"
        fi
        ;;
    esac
}

_hw4_train() {
    local program=$1 word=$2 before=$3
    case $before in
    --model) _hw4_words "$("$program" train --help 2>/dev/null | awk '/^  model /{here = 1; next} here{print $1} here && /^$/{exit}')" "$word" ;;
    --device) _hw4_words "auto gpu cpu" "$word" ;;
    --token-bits) _hw4_words "16 32" "$word" ;;
    *)
        if [[ $word == -* ]]; then
            _hw4_options "$word" "$program" train
        else
            _hw4_files "$word"
        fi
        ;;
    esac
}

_hw4() {
    local program=$1 word=$2 before=$3 command
    if [[ ${COMP_WORDS[1]-} == train && ${COMP_CWORD-0} -gt 1 ]]; then
        _hw4_train "$program" "$word" "$before"
        return
    fi
    case $before in
    --device) _hw4_words "auto gpu cpu" "$word" ;;
    --copies) _hw4_words "2d linear" "$word" ;;
    --contract)
        _hw4_words "$("$program" --version 2>/dev/null | grep -o '[a-z0-9]*\.forward' | cut -d. -f1)" "$word"
        ;;
    --kernel)
        _hw4_words "$("$program" --list-kernels 2>/dev/null | awk '{print $2}')" "$word"
        ;;
    *)
        if [[ ${COMP_WORDS[1]-} == bench && ${COMP_CWORD-0} -gt 1 ]]; then
            _hw4_bench "$program" "$word" "$before"
        elif [[ $word == -* ]]; then
            _hw4_options "$word" "$program"
        else
            _hw4_files "$word"
            for command in bench train; do
                if [[ ${COMP_CWORD-0} == 1 && $program == *hw4 && $command == "$word"* ]]; then COMPREPLY+=("$command"); fi
            done
        fi
        ;;
    esac
}
complete -o filenames -F _hw4 hw4 hw4-seq hw4-compare
