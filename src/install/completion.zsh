#compdef hw4 hw4-seq hw4-compare judge
local engine=${${(%):-%x}:A:h}/../../bash-completion/completions/hw4
local -a found=(${(f)"$(bash $engine "${(@Q)words[1,CURRENT]}")"})
compadd -S '' -- ${(M)found:#*/}
compadd -- ${found:#*/}
