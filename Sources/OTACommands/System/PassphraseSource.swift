import Glibc
import OTASigning
import SystemPackage

/// Where a passphrase comes from; never the arguments, which everybody on the machine can read.
enum PassphraseSource {
    case descriptor(Int32)
    case environment(String)
    case terminal

    static let passphraseHint =
        "give it by --passphrase-fd N, by --passphrase-env NAME, or type it when asked for, on a terminal"

    /// - Parameter isNew: for a new key: on a terminal it is asked for twice.
    /// - Throws: `Failure`, and `KeyError` for one that cannot be used.
    func passphrase(for what: String, isNew: Bool = false) throws -> Passphrase {
        switch self {
        case .descriptor(let number): return try Passphrase(Self.firstLine(of: FileDescriptor(rawValue: number)))
        case .environment(let name):
            guard let text = getenv(name) else { throw Self.none("the environment variable \(name) is not set") }
            let bytes = UnsafeRawBufferPointer(start: text, count: strlen(text))
            return try Passphrase(SecretBytes(copying: bytes))
        case .terminal:
            let first = try TerminalPrompt.secret("Passphrase for \(what): ")
            if isNew {
                let second = try TerminalPrompt.secret("The same again: ")
                guard Self.equal(first, second) else {
                    throw Failure(
                        "passphrase-mismatch", .refused, "the two passphrases are not the same",
                        hint: "nothing was written; type the command again")
                }
            }
            return try Passphrase(first)
        }
    }

    static func none(_ message: String) -> Failure {
        Failure(KeyError.Code.passphraseRequired.rawValue, .refused, message, hint: passphraseHint)
    }

    /// What is there up to a line feed or the end.
    private static func firstLine(of file: FileDescriptor) throws -> SecretBytes {
        do {
            return try SecretBytes(capacity: Passphrase.maximumLength + 2) { buffer in
                var count = 0
                while count < buffer.count {
                    // One by one: what follows in a pipe is somebody else's.
                    let place = UnsafeMutableRawBufferPointer(rebasing: buffer[count..<count + 1])
                    guard try file.read(into: place) > 0, place[0] != UInt8(ascii: "\n") else { break }
                    count += 1
                }
                if count > 0, buffer[count - 1] == UInt8(ascii: "\r") { count -= 1 }
                return count
            }
        } catch {
            throw none("the passphrase could not be read from file descriptor \(file.rawValue): \(error)")
        }
    }

    private static func equal(_ left: SecretBytes, _ right: SecretBytes) -> Bool {
        left.withUnsafeBytes { left in right.withUnsafeBytes { left.elementsEqual($0) } }
    }
}
