# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: where things are, and how they are built.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

# What build_release makes of the product and of all tests.
binary=$root/.build/release/otaflash
tests=$root/.build/release/otaflashPackageTests.xctest

# One build for the product, its tests, the gauntlet and the sanitizers, with one set of flags, so that nobody makes another one's build
# stale. An import that the manifest does not allow is an error. Each module's one compiler writes its interface in passing, which is half
# the time where macros are expanded; of what debuggers need there are the lines only.
build_release() { # OPTIONS OF swift build...
    swift build -c release --explicit-target-dependency-import-check error -Xswiftc -no-emit-module-separately-wmo \
        -Xswiftc -gline-tables-only "$@"
}

# What needs a bus of its own is run by scripts/test-bluetooth: hundreds of buses beside all other tests are too many for a small machine.
bluetooth='^(DBusTests|BlueZTests|OTABlueZTests|OTACommandsTests\.(Bluetooth|Scan|Gatt|Doctor))'

if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then
    bold=$'\e[1m' plain=$'\e[0m'
else
    bold='' plain=''
fi

heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
