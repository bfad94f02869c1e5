import ArgumentParser
import OTAClient
import OTASimulator

/// The values that a shell offers for the options and arguments of `otaflash`.
enum Completions {
    /// The addresses of `--device`: the virtual devices of this user, the serial ports of this machine, and the beginnings of other addresses.
    /// Bluetooth devices are not offered, because a scan takes seconds.
    static let addresses = CompletionKind.custom { _, _, _ in
        let ports = SerialPort.all().map { "serial:\($0.path)" }
        return ["ble:", "ble:name="] + ports + ["sim:"] + devices().map { "sim:\($0)" } + ["udp:"]
    }

    /// The names of the virtual devices of this user.
    static let virtualDevices = CompletionKind.custom { _, _, _ in devices() }

    /// The Bluetooth adapters that the kernel lists.
    static let adapters = CompletionKind.custom { _, _, _ in AdapterCheck.kernelAdapters().sorted() }

    private static func devices() -> [String] {
        // A shell cannot show an error. If the store cannot be read, no devices are offered.
        (try? VirtualDevices().store.names()) ?? []
    }

    /// Returns the completion script with the addition that its shell requires. Only bash requires an addition.
    ///
    /// bash splits words at a colon, so the function of argument-parser does not see an address as the value of `--device`. The added
    /// function first joins the parts of each address, and then calls the function of argument-parser. From each completion, it removes the
    /// text up to the last colon, because bash replaces only the text after this colon.
    static func script(_ script: String, for arguments: [String]) -> String {
        guard let shell = arguments.drop(while: { $0 != option }).dropFirst().first,
            shell == CompletionShell.bash.rawValue
        else {
            return script
        }
        return script + "\n" + bashColons + "\n"
    }

    /// The option of argument-parser that prints a completion script.
    static let option = "--generate-completion-script"

    /// The first argument when a completion script of argument-parser asks for completions.
    static let request = "---completion"

    private static let bashColons = #"""
        _otaflash_with_colons() {
            local -a joined=()
            local -i position=0 index
            local word line="${COMP_LINE}" glued
            for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
                word="${COMP_WORDS[index]}"
                glued=false
                [[ "${line}" == [[:space:]]* || ${index} -eq 0 ]] || glued=true
                line="${line#"${line%%[![:space:]]*}"}"
                line="${line#"${word}"}"
                if "${glued}" && [[ "${word}" == :* || "${joined[-1]}" == *: ]]; then
                    joined[-1]+="${word}"
                else
                    joined+=("${word}")
                fi
                ((index != COMP_CWORD)) || position=$((${#joined[@]} - 1))
            done
            local -a COMP_WORDS=("${joined[@]}")
            local -i COMP_CWORD=position
            word="${joined[position]}"
            _otaflash "${1}" "${word}" "${joined[position - 1]:-}"
            local prefix="${word%"${word##*:}"}"
            COMPREPLY=("${COMPREPLY[@]#"${prefix}"}")
            [[ "${#COMPREPLY[@]}" -ne 1 || "${COMPREPLY[0]}" != *[:=] ]] || compopt -o nospace
        }
        complete -o filenames -F _otaflash_with_colons otaflash
        """#
}
