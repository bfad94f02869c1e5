import ArgumentParser
import OTACommands
import OTAFleet
import OTASigning
import SystemPackage

/// The command `fleet report`, which writes a web page with the state of the fleet.
struct FleetReport: Command {
    static let name = "fleet report"
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Write a web page with the rollouts, the devices, the gateways and the failures.",
        discussion: """
            Example: otaflash fleet report --html fleet.html --operators ops.pub.pem

            The page is one file without scripts, so it can be sent by mail or served by any web server. It shows the rollouts that an \
            operator signed, with their stages; the devices by version and state; the gateways that run; and the devices that no \
            rollout tries again, with the reasons and the next steps. The records of devices and gateways are not signed.

            If FILE exists, report replaces it only if it is an earlier report.
            """)

    @Option(help: ArgumentHelp("The file of the page; suffix .html. Required.", valueName: "file"), completion: .file())
    var html: String

    @OptionGroup var operators: OperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> FleetReportAnswer {
        guard html.hasSuffix(".html") else {
            throw Failure.usage(
                "--html \(html): expected a file name with the suffix .html", hint: "such as --html fleet.html")
        }
        // The file is checked before the store is read, which can take a while.
        let output = try output()
        let operators = try operators.keys(console)
        let snapshot = try await store.withStore(for: console) { try await FleetSnapshot.read($0, operators, console) }
        do throws(SigningError) {
            try output.write(Array(ReportPage(snapshot: snapshot, software: Version.number).text.utf8))
            try output.commit()
        } catch {
            throw failure(error)
        }
        return FleetReportAnswer(
            report: .init(
                file: html, at: snapshot.at?.description, rollouts: snapshot.rollouts.count,
                devices: snapshot.devices.count, gateways: snapshot.gateways.count, failures: snapshot.givenUp.count))
    }

    /// - Throws: `output-exists` if the file exists and is not an earlier report; `cannot-create`.
    private func output() throws(Failure) -> OutputFile {
        do throws(SigningError) {
            let output = try OutputFile(FilePath(html), replaces: true)
            guard try isReplaceable() else {
                throw SigningError.refused(.outputExists, context: "\(html) exists and is not a report of otaflash")
            }
            return output
        } catch {
            throw failure(error)
        }
    }

    private func isReplaceable() throws(SigningError) -> Bool {
        do throws(SigningError) {
            let start = try InputFile(FilePath(html)).prefix(200)
            return start.isEmpty || String(decoding: start, as: UTF8.self).contains(ReportPage.marker)
        } catch {
            if error.code == SigningError.Code.noSuchFile.rawValue { return true }
            throw error
        }
    }

    private func failure(_ error: SigningError) -> Failure {
        let isFull = error.code == SigningError.Code.writeFailed.rawValue
        return Failure(
            error.code, isFull ? .inputOutput : .cannotCreate, "cannot write the report: \(error.context)",
            hint: isFull ? "check that the disk has free space: df" : "choose another file: --html FILE.html")
    }
}

/// The result of `fleet report`.
struct FleetReportAnswer: CommandAnswer {
    struct Report: Encodable, Sendable {
        let file: String
        let at: String?
        let rollouts, devices, gateways: Int
        /// The devices that no rollout tries again.
        let failures: Int
    }

    let report: Report

    var lines: [TerminalLine] {
        TextTable.pairs([
            ("report", report.file), ("rollouts", "\(report.rollouts)"),
            ("devices", "\(report.devices), \(report.failures) of them given up"), ("gateways", "\(report.gateways)"),
        ])
    }
}
