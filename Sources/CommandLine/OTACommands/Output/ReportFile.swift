import FoundationEssentials
import OTASigning
import SystemPackage

/// The file of `--report`: the result of a command as JSON, or the result of `push` as JUnit XML.
///
/// The file appears only when its contents are complete. The new report replaces an earlier report. An existing file that is not a report
/// is refused, because it could be another file of the user, such as the output of the same command.
struct ReportFile {
    enum Format {
        case json, junit
    }
    let path: String
    let format: Format

    /// The maximum size of an earlier report, in bytes. A larger file is not an earlier report.
    private static let longest: UInt64 = 16 << 20

    /// Checks that the report can be written. The check changes no existing file, and leaves no new one.
    ///
    /// - Parameter hasPhases: `Command.hasPhases`. Only such a command can write a JUnit report (suffix `.xml`).
    /// - Throws: `usage` for a suffix that the command does not support; `output-exists` if the file exists and is not an earlier report;
    ///   `cannot-create`.
    init(_ path: String, hasPhases: Bool) throws(Failure) {
        self.path = path
        if path.hasSuffix(".json") {
            format = .json
        } else if path.hasSuffix(".xml"), hasPhases {
            format = .junit
        } else if path.hasSuffix(".xml") {
            throw .usage(
                "--report \(path): only push has a report in JUnit XML",
                hint: "use the suffix .json: --report report.json")
        } else {
            throw .usage(
                "--report \(path): expected a file name with the suffix .json"
                    + (hasPhases ? " or .xml (example: --report report.xml)" : " (example: --report report.json)"),
                hint: "use the suffix .json" + (hasPhases ? ", or .xml for JUnit XML" : ""))
        }
        _ = try output()
    }

    /// Writes the report. A program that reads the file at the same time gets the old contents or the complete new contents.
    ///
    /// - Throws: `output-exists`, `cannot-create`, `write-failed`.
    func write(_ text: String) throws(Failure) {
        let output = try output()
        do throws(SigningError) {
            try output.write(Array((text + "\n").utf8))
            try output.commit()
        } catch {
            throw failure(error)
        }
    }

    private func output() throws(Failure) -> OutputFile {
        let output: OutputFile
        do throws(SigningError) { output = try OutputFile(FilePath(path), replaces: true) } catch {
            throw failure(error)
        }
        guard try isReplaceable() else {
            throw Failure(
                "output-exists", .cannotCreate, "\(path) exists and is not a report of otaflash",
                hint: "use another name: --report FILE.\(format == .json ? "json" : "xml")")
        }
        return output
    }

    /// Returns true if there is no file at the path, or if the file is empty or an earlier report.
    private func isReplaceable() throws(Failure) -> Bool {
        do throws(SigningError) {
            let file = try InputFile(FilePath(path))
            if file.size == 0 { return true }
            guard file.size <= Self.longest else { return false }
            let bytes = try file.prefix(Int(file.size))
            switch format {
            case .json: return (try? JSONDecoder().decode(Earlier.self, from: Data(bytes)))?.schema == 1
            case .junit: return bytes.starts(with: JUnitReport.heading.utf8)
            }
        } catch {
            if error.code == SigningError.Code.noSuchFile.rawValue { return true }
            throw failure(error)
        }
    }

    /// The members that each JSON result has. A file with these members is an earlier report.
    private struct Earlier: Decodable {
        let schema: Int
        let command: String
        let ok: Bool
        let exit: Int
    }

    private func failure(_ error: SigningError) -> Failure {
        let full = error.code == SigningError.Code.writeFailed.rawValue
        let parent = FilePath(path).removingLastComponent()
        let folder = Shell.quoted(parent.isEmpty ? "." : parent.string)
        let hint =
            full ? "check that the disk has free space: df" : "use another name, or check the folder: ls -ld \(folder)"
        return Failure(
            full ? "write-failed" : "cannot-create", full ? .inputOutput : .cannotCreate,
            "cannot write the report \(error.context)",
            hint: hint)
    }
}
