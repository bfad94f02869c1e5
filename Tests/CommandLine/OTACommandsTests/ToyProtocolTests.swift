import FoundationEssentials
import OTAClient
import OTAUpdate
import SystemPackage
import Testing

/// The program otaflash-toy is otaflash with one more protocol. No other file of the product knows this protocol.
@Suite("A protocol of a test") struct ToyProtocolTests {
    private static let program = Sandbox.binary.removingLastComponent().appending("otaflash-toy").string

    @Test("a push over the protocol updates its virtual device, also if the link is lost on the way")
    func push() async throws {
        let sandbox = try Sandbox()
        // A toy image begins with its version.
        try await sandbox.release()
        try sandbox.write("app.bin", Array("1.1.0\n".utf8) + Array(repeating: 0, count: 100_000))
        let run = try await sandbox.shell(
            """
            set -e
            "$1" sign app.bin --key release.pem --product kettle --version 1.1.0 --raw
            "$1" simulate create kettle --protocol toy --product kettle --version 1.0.0 --trust release.pub.pem
            "$1" push app.bin.otaf --device 'sim:kettle?pace=virtual&drop-at=0.4' --trust release.pub.pem
            "$1" status --device 'sim:kettle?pace=virtual'
            "$1" simulate list
            """, Self.program)
        #expect(run.exit == 0, "\(run.err)")
        #expect(run.out.contains("toy protocol"), "\(run.out)")
        #expect(run.out.contains("sim:kettle  toy"), "\(run.out)")
        #expect(run.err.contains("Reconnected"), "\(run.err)")
    }

    @Test("the help names the protocol, and otaflash itself refuses it")
    func names() async throws {
        let sandbox = try Sandbox()
        let help = try await sandbox.shell("\"$1\" status --help", Self.program)
        let words = help.out.split { $0.isWhitespace }.joined(separator: " ")
        #expect(words.contains("or toy (toy protocol)"), "\(help.out)")
        let refused = try await sandbox.run("status", "--device", "sim:", "--protocol", "toy")
        #expect(refused.exit == 64)
        #expect(refused.err.contains("ota") && refused.err.contains("smp"))
    }

    @Test("the table of protocols is that of docs/protocols.md and of the JSON schema")
    func table() throws {
        let page = try String(contentsOfFile: Sandbox.repository("docs/protocols.md"), encoding: .utf8)
        let rows = page.split(separator: "\n").filter { $0.hasPrefix("| `") && !$0.contains("--protocol") }
        #expect(rows.count == Protocols.all.count)
        for (row, entry) in zip(rows, Protocols.all) {
            #expect(row.hasPrefix("| `\(entry.updateProtocol.rawValue)` | [\(entry.updateProtocol.title)]"))
        }
        let schema = try JSONValue(
            parsing: String(contentsOfFile: Sandbox.repository("docs/schema/otaflash-1.schema.json"), encoding: .utf8))
        let names = try #require(schema[dynamicMember: "$defs"]?.protocol?.enum?.array).map(\.string)
        #expect(names == Protocols.all.map(\.updateProtocol.rawValue))
    }
}
