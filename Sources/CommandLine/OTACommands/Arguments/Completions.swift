package import ArgumentParser
import OTAClient
import OTASimulator

/// The values that a shell offers for the options and arguments of `otaflash`.
package enum Completions {
    /// The addresses of `--device`: the virtual devices of this user, the serial ports of this machine, and the beginnings of other
    /// addresses. Bluetooth devices are not offered, because a scan takes seconds.
    ///
    /// A word that the user has already typed completely is not offered again. If it were offered, bash and fish would add a space after
    /// the word, even if the word is only the beginning of an address, such as `udp:`.
    package static let addresses = CompletionKind.custom { words, index, _ in
        let ports = SerialPort.all().map { "serial:\($0.path)" }
        let all = ["ble:", "ble:name="] + ports + ["sim:"] + devices().map { "sim:\($0)" } + ["udp:"]
        let addresses = all.filter { $0 != words.dropFirst(index).first }
        // zsh reads the text after a colon as the description of the value. So each colon of an address gets a backslash.
        return CompletionShell.requesting == .zsh ? addresses.map { $0.replacing(":", with: "\\:") } : addresses
    }

    /// The names of the virtual devices of this user.
    static let virtualDevices = CompletionKind.custom { _, _, _ in devices() }

    /// The Bluetooth adapters that the kernel lists.
    package static let adapters = CompletionKind.custom { _, _, _ in AdapterCheck.kernelAdapters().sorted() }

    private static func devices() -> [String] {
        // A shell cannot show an error. If the store cannot be read, no devices are offered.
        (try? VirtualDevices().store.names()) ?? []
    }

    /// Adapts a completion script of argument-parser to the addresses of devices, which contain `:` and `=`.
    ///
    /// The code that this function adds also prevents a space after the beginning of an address, such as `udp:`.
    static func script(_ script: String, for arguments: [String]) -> String {
        switch arguments.drop(while: { $0 != option }).dropFirst().first {
        case CompletionShell.bash.rawValue: script + "\n" + bashAddresses + "\n"
        // The last statement of the script runs the completion, so the added code must be before this statement.
        case CompletionShell.zsh.rawValue: script.replacing(zshEnd, with: zshAddresses + "\n\n" + zshEnd)
        default: script
        }
    }

    /// The option of argument-parser that prints a completion script.
    package static let option = "--generate-completion-script"

    /// The first argument when a completion script of argument-parser asks for completions.
    static let request = "---completion"

    /// The bash function that completes the arguments of otaflash. bash splits words at `:` and `=`, so argument-parser's function would
    /// not see an address as one word.
    ///
    /// The bash function joins the split words, splits `--OPTION=VALUE` into option and value, and calls argument-parser's function. bash
    /// replaces only the text after the last `:` or `=` of the typed word. So the bash function removes the text up to that character from
    /// each completion.
    private static let bashAddresses = #"""
        _otaflash_with_addresses() {
            local -a joined=()
            local -i position=0 index
            local word line="${COMP_LINE}" glued
            for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
                word="${COMP_WORDS[index]}"
                glued=false
                [[ "${line}" == [[:space:]]* || ${index} -eq 0 ]] || glued=true
                line="${line#"${line%%[![:space:]]*}"}"
                line="${line#"${word}"}"
                if "${glued}" && [[ "${word}" == [:=]* || "${joined[-1]}" == *[:=] ]]; then
                    joined[-1]+="${word}"
                else
                    joined+=("${word}")
                fi
                ((index != COMP_CWORD)) || position=$((${#joined[@]} - 1))
            done
            local current="${COMP_WORDS[COMP_CWORD]}" option=''
            [[ "${current}" != [:=] ]] || current=''
            local -r kept="${joined[position]%"${current}"}"
            if [[ "${joined[position]}" == --*=* ]]; then
                option="${joined[position]%%=*}="
                joined=("${joined[@]::position}" "${option%=}" "${joined[position]#*=}" "${joined[@]:position + 1}")
                position+=1
            fi
            local -a COMP_WORDS=("${joined[@]}")
            local -i COMP_CWORD=position
            _otaflash "${1}" "${joined[position]}" "${joined[position - 1]:-}"
            COMPREPLY=("${COMPREPLY[@]/#/${option}}")
            COMPREPLY=("${COMPREPLY[@]#"${kept}"}")
            # bash would write a backslash before the colons of an address, as in a file name.
            [[ "${joined[position - 1]:-}" != --device ]] || compopt +o filenames
            [[ "${#COMPREPLY[@]}" -ne 1 || "${COMPREPLY[0]}" != *[:=] ]] || compopt -o nospace
        }
        complete -o filenames -F _otaflash_with_addresses otaflash
        """#

    private static let zshEnd = #"if [[ "${funcstack[1]}" = _otaflash ]]; then"#

    private static let zshAddresses = #"""
        __otaflash_complete() {
            local -ar complete=("${@:#*[:=]}") incomplete=("${(M)@:#*[:=]}")
            _describe -V '' complete -- incomplete -S ''
        }
        """#
}
