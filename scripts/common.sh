# shellcheck shell=bash disable=SC2034
# The other scripts source this file. It defines paths and the build command.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

# The outputs of build_release: the two programs of the product, and one program with all tests.
binary=$root/.build/release/otaflash
fleet=$root/.build/release/otaflash-fleet
tests=$root/.build/release/otaflashPackageTests.xctest

# Runs `swift build`. All scripts build with the same flags, so that no script invalidates the build of another script. An import that the
# manifest does not allow is an error. With -no-emit-module-separately-wmo, the process that compiles a module also writes the module's
# interface. This halves the build time of modules with macros. The debug information contains only line tables.
#
# The product contains libcbor and libdbus (scripts/static-libraries). With --disable-local-rpath, it searches no library in its own folder.
build_release() { # OPTIONS OF swift build...
    local libraries name
    libraries=$("$root/scripts/static-libraries") || return
    # SwiftPM passes the system's folder to the linker for each shared library, and the order of the libraries depends on the program. So
    # the linker of otaflash-fleet would find the shared libcbor before the static one. These descriptions name no folder.
    mkdir -p "$root/.build/pkg-config"
    for name in libcrypto liblzma libnats sqlite3 zlib; do
        printf 'Name: %s\nDescription: %s\nVersion: %s\nLibs: %s\n' "$name" "$name" "$(pkg-config --modversion "$name")" \
            "$(pkg-config --libs-only-l "$name")" >"$root/.build/pkg-config/$name.pc" || return
    done
    PKG_CONFIG_PATH=$libraries/lib/pkgconfig:$root/.build/pkg-config swift build -c release --explicit-target-dependency-import-check error \
        --disable-local-rpath -Xswiftc -no-emit-module-separately-wmo -Xswiftc -gline-tables-only "$@"
}

# Builds both programs of the product. swift build accepts one product at a time; the second call only links.
build_programs() { build_release --product otaflash && build_release --product otaflash-fleet; }

if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then
    bold=$'\e[1m' plain=$'\e[0m'
else
    bold='' plain=''
fi

heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
