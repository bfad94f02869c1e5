import FoundationEssentials
import Glibc
import OTACommands
import SystemPackage

/// Collects the JSON that the commands of all tests print. `scripts/check-schema` compares it with the schemas in docs/schema.
///
/// `scripts/test` names a folder in the environment variable OTAFLASH_OUTPUTS. Without it, nothing is collected.
enum JSONOutputs {
    /// One line of `outputs.jsonl` in that folder.
    private struct Entry: Encodable {
        /// The file name of the schema.
        let schema: String
        let arguments: [String]
        let line: String
    }

    private static let file: FileDescriptor? = {
        guard let folder = getenv("OTAFLASH_OUTPUTS"), folder.pointee != 0 else { return nil }
        let path = FilePath(String(cString: folder)).appending("outputs.jsonl")
        return try? FileDescriptor.open(path, .writeOnly, options: [.append, .create], permissions: .ownerReadWrite)
    }()

    /// Collects the output of a command.
    ///
    /// - Parameter isAlone: false if a shell script ran the command. The output can then have lines of other programs.
    static func collect(_ run: Run, of arguments: [String], isAlone: Bool) throws {
        // The help and the version are text in each format.
        guard let file, !arguments.contains("--help"), run.out != Version.line + "\n" else { return }
        try write(run.out, "otaflash-1", "--format", arguments, isAlone, to: file)
        try write(run.err, "progress-1", "--progress", arguments, isAlone, to: file)
    }

    private static func write(
        _ text: String, _ schema: String, _ option: String, _ arguments: [String], _ isAlone: Bool,
        to file: FileDescriptor
    ) throws {
        let isJSON =
            arguments.contains(option + "=json")
            || zip(arguments, arguments.dropFirst()).contains { $0 == (option, "json") }
        guard isJSON else { return }
        for line in text.split(separator: "\n") where isAlone || line.hasPrefix("{") && line.hasSuffix("}") {
            let entry = Entry(schema: schema, arguments: arguments, line: String(line))
            // Each entry is written with one call, so that the entries of parallel tests do not mix.
            try file.writeAll(try JSONEncoder().encode(entry) + [0x0A])
        }
    }
}
