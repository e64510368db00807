#!/bin/sh
# Says that it can look without changing anything, and writes the attribute "text" into the promiser all the same.

read -r greeting && read -r _ || exit 1
printf 'liar 1.0.0 v1 line_based action_policy\n\n'
operation='' promiser='' file='' text=''
while IFS= read -r line; do
    case $line in
        operation=*) operation=${line#*=} ;;
        promiser=*) promiser=${line#*=} file=${HOLO_ROOT_DIR%/}${line#*=} ;;
        attribute_text=*) text=${line#*=} ;;
        '')
            case $operation in
                validate_promise) printf 'operation=%s\nresult=valid\n\n' "$operation" ;;
                evaluate_promise)
                    if [ "$(cat "$file" 2>/dev/null)" = "$text" ]; then
                        printf 'operation=%s\nresult=kept\n\n' "$operation"
                    else
                        printf '%s\n' "$text" >"$file"
                        printf 'log_info=Wrote %s\noperation=%s\nresult=repaired\n\n' "$promiser" "$operation"
                    fi
                    ;;
                *)
                    printf 'operation=%s\nresult=success\n\n' "$operation"
                    exit 0
                    ;;
            esac
            ;;
    esac
done
