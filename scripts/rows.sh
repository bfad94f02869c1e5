# shellcheck shell=bash
# Sourced, behind common.sh, by the scripts that play tests: processes side by side, each with a row of tests. What a row says is shown when it
# has ended, the closing lines of all once more at the end.

rows_at_once=5
# Many times what any takes. One that waits for what will never come is ended, and tells where it was.
row_seconds=900
declare -A rows=()
closings=() failed=0
said=$(mktemp -d)

# Ctrl-C does not reach what is in the background.
end_rows() {
    ((${#rows[@]} == 0)) || kill "${!rows[@]}" 2>/dev/null || true
    rm -rf "$said"
}
trap end_rows EXIT
trap 'exit 143' TERM INT HUP

start_row() { # NAME COMMAND...
    ((${#rows[@]} < rows_at_once)) || await_row
    timeout "$row_seconds" "${@:2}" >"$said/$1" 2>&1 &
    rows[$!]=$1
}

# The tests that have begun and not ended.
under_way() { # WHAT A ROW SAID
    sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        $2 != "Test" || $3 == "run" || $3 == "case" { next }
        / started\.$/ { open[$3]++ }
        / (passed|failed) after / { open[$3]-- }
        END { for (test in open) if (open[test] > 0) printf "%s ", test }'
}

await_row() { # one of them
    local row name status=0
    wait -n -p row "${!rows[@]}" || status=$?
    ((status == 0)) || failed=1
    name=${rows[$row]}
    unset "rows[$row]"
    heading "$name"
    cat "$said/$name"
    ((status != 124)) || echo "✘ $name: not through after $row_seconds s; still under way: $(under_way "$said/$name")"
    closings+=("$name: $(grep -a 'Test run with' "$said/$name" || echo "exit $status")")
}

# Fails if one of them has.
finish_rows() {
    while ((${#rows[@]} > 0)); do await_row; done
    heading "Summary"
    printf '%s\n' "${closings[@]}"
    return "$failed"
}
