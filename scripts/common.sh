# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: where things are, and how they are built.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

binary=$root/.build/release/otaflash

# One set of flags for everybody who builds a release, so that nobody makes another one's build stale: the Swift runtime inside,
# no symbols, and an import that the manifest does not allow is an error.
build_release() {
    swift build -c release --product otaflash --static-swift-stdlib \
        --explicit-target-dependency-import-check error -Xlinker -s
}

# Who builds something once and throws it away has one compiler for each module, which writes its interface in passing: that is half the
# time where macros are expanded. Of what debuggers need, only the lines.
build_once=()
for flag in -whole-module-optimization -num-threads 2 -no-emit-module-separately-wmo -gline-tables-only; do
    build_once+=(-Xswiftc "$flag")
done

# The same of everybody who builds the tests: a developer builds again what was changed, CI builds all of it, once.
build_tests=(--explicit-target-dependency-import-check error)
[ "${CI-}" != true ] || build_tests+=("${build_once[@]}")

# What needs a bus of its own is run by scripts/test-bluetooth: hundreds of buses beside all other tests are too many for a small machine.
bluetooth='^(DBusTests|BlueZTests|OTABlueZTests|OTACommandsTests\.(Bluetooth|Scan|Gatt|Doctor))'

if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then
    bold=$'\e[1m' plain=$'\e[0m'
else
    bold='' plain=''
fi

heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
