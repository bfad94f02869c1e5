# shellcheck shell=bash
# The scripts that run tests source this file after common.sh. Its functions run groups of tests in parallel, each in a process of its own.
# They print the output of a group when the group ends, and at the end the summary lines of all groups.

# The test targets whose tests start processes and mostly wait for them.
command_tests='^OTACommandsTests\.'
# The test targets that need D-Bus daemons.
bus_tests='^(DBusTests|BlueZTests|OTALinksTests)\.'
# The test targets that start NATS servers. They measure time, as the tests of commands do.
server_tests='^(NATSTests|OTANATSStoreTests)\.'

# A group that runs for this time, in seconds, is ended, and the tests that were still running are printed. So tests need no time limits of
# their own. The limit is many times the duration of the slowest group on a busy machine.
group_seconds=1800
groups_at_once=5
declare -A groups=()
summaries=() failed=0
outputs=$(mktemp -d)

# Ends the groups, because Ctrl-C does not reach processes in the background.
end_groups() {
    ((${#groups[@]} == 0)) || kill "${!groups[@]}" 2>/dev/null || true
    rm -rf "$outputs"
}
trap end_groups EXIT
trap 'exit 143' TERM INT HUP

# Starts a command as a group. If too many groups are running, first waits for one of them.
start_group() { # NAME COMMAND...
    ((${#groups[@]} < groups_at_once)) || await_group
    timeout --kill-after 5 "$group_seconds" "${@:2}" >"$outputs/$1" 2>&1 </dev/null &
    groups[$!]=$1
}

# Starts tests of the program $tests. The package manager is not used, because each `swift test` waits for the others.
start_tests() { # NAME OPTIONS OF swift test...
    start_group "$1" "$tests" --testing-library swift-testing "${@:2}"
}

# Prints the option for at most N tests of a group at the same time. If all tests ran at once, dozens of processes would compete, and tests
# would miss their time limits.
at_most() { # N
    echo "--experimental-maximum-parallelization-width=$1"
}

# Prints the names of the tests that were started and did not end.
still_running() { # OUTPUT
    sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        $2 != "Test" || $3 == "run" || $3 == "case" { next }
        { name = $3 }
        match($0, /"[^"]*"/) { name = substr($0, RSTART, RLENGTH) }
        / started\.$/ { open[name]++ }
        / (passed|failed) after / { open[name]-- }
        END { for (test in open) if (open[test] > 0) printf "%s ", test }'
}

# Waits for one group and prints its output.
await_group() {
    local group name status=0
    wait -n -p group "${!groups[@]}" || status=$?
    ((status == 0)) || failed=1
    name=${groups[$group]}
    unset "groups[$group]"
    heading "$name"
    cat "$outputs/$name"
    ((status != 124)) || echo "✘ $name: not ended after $group_seconds s; still running: $(still_running "$outputs/$name")"
    summaries+=("$name: $(grep -a 'Test run with' "$outputs/$name" || echo "exit $status")")
}

await_groups() {
    while ((${#groups[@]} > 0)); do await_group; done
}

# Waits for all groups and fails if one of them failed.
finish_groups() {
    await_groups
    heading "Summary"
    printf '%s\n' "${summaries[@]}"
    return "$failed"
}
