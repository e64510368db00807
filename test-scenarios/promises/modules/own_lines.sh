#!/usr/bin/env bash
# Keeps the whole text of a file: a promise module of the line-based protocol.
#
# The promiser is the file. Attributes are "text", and "end", which is put after it. As modules in this language do, it evaluates what it is
# told, and never forgets it: a promise without "end" gets the one of the promise before.

root=${HOLO_ROOT_DIR%/}

say() {
    printf 'log_%s=%s\n' "$1" "$2"
}

reply() {
    printf 'operation=%s\nresult=%s\nresult_classes=%s\n\n' "$operation" "$1" "$2"
}

# Reads a request into variables of its keys.
hear() {
    local line key value
    while IFS= read -r line; do
        [[ $line ]] || return 0
        key=${line%%=*} value=${line#*=}
        [[ $key =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
        printf -v value '%q' "$value"
        eval "$key=$value"
    done
    return 1
}

validate() {
    if [[ $promiser != /* ]]; then
        say error "Promiser '$promiser' must be an absolute path ($filename:$line_number)"
        reply invalid ''
    elif [[ ! ${attribute_text+set} ]]; then
        say error "Attribute 'text' is missing"
        reply invalid ''
    else
        reply valid ''
    fi
}

evaluate() {
    local file=$root$promiser text=$attribute_text${attribute_end-}
    if [[ -f $file && $(<"$file") == "$text" ]]; then
        reply kept ''
    elif printf '%s\n' "$text" 2>/dev/null >"$file"; then
        say info "Updated file '$promiser' with content '$text'"
        reply repaired "${promiser}_updated,"
    else
        say error "Failed to update file '$promiser'"
        reply not_kept ''
    fi
}

IFS= read -r greeting && IFS= read -r _ || exit 1
[[ $greeting =~ ^cf-agent\ 3\.[0-9][0-9] ]] || exit 1
printf 'own_lines 1.0.0 v1 line_based\n\n'
while hear; do
    case $operation in
        validate_promise) validate ;;
        evaluate_promise) evaluate ;;
        terminate)
            reply success ''
            exit 0
            ;;
        *) reply error '' ;;
    esac
done
