# Completion of gossamer for bash 4.4 and later; made by `gossamer completion bash`.
_gossamer_completion() {
    local line=${COMP_LINE:0:COMP_POINT} value
    local typed=${line##*[[:space:]]}
    # --option=value is asked as two words; bash replaces only what follows its last word break.
    if [[ $typed == --*=* ]]; then
        line="${line%"$typed"}${typed%%=*} ${typed#--*=}"
        typed=${typed#--*=}
    fi
    local kept=${typed%"${typed##*[@:=]}"}
    # "@" belongs to what bash replaces, the other breaks do not.
    [[ $kept == *@ ]] && kept=${kept%@}
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        [[ $value ]] && COMPREPLY+=("$(printf %q "${value#"$kept"}")")
    done < <(_GOSSAMER_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
        _TYPER_COMPLETE_ARGS="$line" "$1" 2>/dev/null)
}
complete -o default -F _gossamer_completion gossamer
