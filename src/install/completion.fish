set -l engine (status dirname)/../../bash-completion/completions/hw4
for name in hw4 hw4-seq hw4-compare judge
    complete -c $name -f -a "(bash '$engine' (commandline -opc) (commandline -ct))"
end
