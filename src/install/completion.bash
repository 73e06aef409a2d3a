# Completion of hw4, hw4-seq, hw4-compare and judge, from what their own --help says. bash sources this file; zsh and
# fish (completion.zsh, completion.fish) run it with the words of the line, up to the one to complete.

_hw4_help() { # PROGRAM [COMMAND...]
    case ${1##*/}${2:+ $2} in
    hw4) "$1" --help | sed '/^$/q' && "$1" help options ;;
    "hw4 help") "$1" help all | grep -xE '[a-z-]+:' | grep -vx examples: ;;
    *) COLUMNS=200 "$@" --help ;;
    esac 2>/dev/null
}

# The options in a help; or what follows one there: "auto|gpu|cpu" or "{auto,gpu,cpu}" a line each, "FILE", nothing. An
# optional value, "--causal[=yes|no]", follows only "--causal=".
_hw4_options() {
    awk -v option="${1-}" '
        sub(/^  -/, "-") {
            sub(/  .*/, "")
            if (/\{/) gsub(/,/, "|")
            gsub(/\[=/, "= ")
            gsub(/[][{},]/, " ")
            for (i = 1; i <= NF; i++) {
                name = $i
                sub(/=$/, "", name)
                if (option == "" && name ~ /^--/) print name
                if (option == "" || (option != $i && option != name "=")) continue
                for (i++; $i ~ /^-/;) i++
                print $i
                exit
            }
        }' | tr '|' '\n'
}

_hw4_values() { # PREFIX WORD OPTION HELP HW4
    local names
    names=$(_hw4_options "$3" <<<"$4")
    case ${3%=} in
    --kernel) names+=" "$("$5" --list-kernels 2>/dev/null | awk '{ print $2 }') ;;
    --kind) names=$(sed -n '/^kinds: /,/^$/{s/^kinds://; s/:[0-9]*//g; p}' <<<"$4") ;;
    --preset) names=$(sed -n '/^presets:/,/^$/s/^  \([a-z0-9-]*\)  .*/\1/p' <<<"$4") ;;
    --relative-to) names=$(_hw4_options --impl <<<"$4") ;;
    --contract) [[ $names != *all ]] || names+=" "$(_hw4_help "$5" | _hw4_options --contract) ;;
    esac
    case $names in
    FILE* | DIR | PROGRAM | COMMAND | OLD) compgen -P "$1" -f -- "$2" ;;
    *)
        names=$(tr ' ' '\n' <<<"$names" | grep -v '^[A-Z]')
        if [[ $2 == *,* ]]; then
            compgen -P "$1${2%,*}," -W "$names" -- "${2##*,}"
        else
            compgen -P "$1" -W "$names" -- "$2"
        fi
        ;;
    esac
}

_hw4_candidates() { # PROGRAM WORD...: what the last word can become, a line each
    local command=("$1") hw4=$1 word=${!#} before=${*:$#-1:1} help commands
    [[ ${1##*/} != judge ]] || hw4=$(command -v "${1%judge}../hw4" hw4 | head -n 1)
    shift
    while true; do
        help=$(_hw4_help "${command[@]}")
        commands=$(sed -nE "/^$/q; s/^(usage:| {6}) ([^ ]+ ){${#command[@]}}([a-z][a-z|-]*)( .*|$)/\\3/p" <<<"$help" |
            tr '|\n' ' ')
        [[ $# -gt 1 && " $commands " == *" $1 "* ]] || break
        command+=("$1")
        shift
    done
    [[ $before != --* || -n $(_hw4_options "$before" <<<"$help") ]] || before= # an option without a value
    case $word:$before in
    --*=*) _hw4_values "${word%%=*}=" "${word#*=}" "${word%%=*}=" "$help" "$hw4" ;;
    -*) compgen -W "$(_hw4_options <<<"$help")" -- "$word" ;;
    *:help) compgen -W "${help//:/} all bench train" -- "$word" ;;
    *:--*) _hw4_values "" "$word" "$before" "$help" "$hw4" ;;
    *)
        [[ $# -ne 1 ]] || compgen -W "$commands" -- "$word"
        case ${command[0]##*/}${command[1]+ ${command[1]}} in
        "hw4 bench") ;; # takes no files
        judge) compgen -W "$("${command[0]}" --list 2>/dev/null | awk '{ print $1 }')" -- "$word" ;;
        *) compgen -f -- "$word" ;;
        esac
        ;;
    esac | sort -u
}

_hw4() {
    local words=("${COMP_WORDS[0]}") word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do # "=" is a word of its own there
        if [[ $word == = || ${words[-1]} == *= ]]; then words[-1]+=$word; else words+=("$word"); fi
    done
    mapfile -t COMPREPLY < <(_hw4_candidates "${words[@]}")
    [[ ${words[-1]} != --*=* ]] || COMPREPLY=("${COMPREPLY[@]#*=}")
}
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    _hw4_candidates "$@" | while IFS= read -r name; do echo "$name$([[ ! -d $name ]] || echo /)"; done
else
    complete -o filenames -F _hw4 hw4 hw4-seq hw4-compare judge
fi
