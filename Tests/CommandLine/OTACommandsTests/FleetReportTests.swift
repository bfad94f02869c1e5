import OTALocalStore
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// The page of `fleet report`. The parser is expat, which accepts only well-formed XML.
@Suite("fleet report") struct FleetReportTests {
    /// The parts of a page.
    private struct Page {
        let json: JSONValue
        let source: String

        /// The text of the section with this heading.
        func text(_ heading: String) -> String { json.sections?[dynamicMember: heading]?.text?.string ?? "" }

        /// The rows of a table in the section with this heading. Each row is a list of the texts of its cells.
        func rows(_ heading: String, table: Int = 0) -> [[String]] {
            let rows = json.sections?[dynamicMember: heading]?.tables?[table]?.array ?? []
            return rows.map { $0.array?.compactMap(\.string) ?? [] }
        }
    }

    private func page(_ sandbox: Sandbox, _ name: String) async throws -> Page {
        let script = """
            import json, sys
            import xml.etree.ElementTree as tree
            root = tree.parse(sys.argv[1]).getroot()
            prefix = "{http://www.w3.org/1999/xhtml}"
            names = sorted({element.tag.removeprefix(prefix) for element in root.iter()})
            attributes = sorted({name for element in root.iter() for name in element.attrib})
            text = lambda element: "".join(element.itertext()).strip()
            sections = {}
            for section in root.iter(prefix + "section"):
                tables = [[[text(cell) for cell in row] for row in table.iter(prefix + "tr")]
                          for table in section.iter(prefix + "table")]
                assert all(len(row) == len(table[0]) for table in tables for row in table), "cells are missing"
                sections[text(section.find(prefix + "h2"))] = {"text": text(section), "tables": tables}
            print(json.dumps({"names": names, "attributes": attributes, "sections": sections,
                              "title": text(root.find(f"{prefix}head/{prefix}title")),
                              "tiles": text(next(root.iter(prefix + "ul")))}))
            """
        let read = try await Command.run(PythonEnvironment.python, ["-c", script, sandbox.path(name)])
        let source = String(decoding: try sandbox.read(name), as: UTF8.self)
        #expect(read.succeeded, "\(read.errorText)\(source)")
        return Page(json: try JSONValue(parsing: read.outputText), source: source)
    }

    private let trust = ["--operators", "ops.pub.pem"]

    @Test("the page shows the stages of a rollout, the devices, the gateway, and the devices that failed")
    func complete() async throws {
        let fleet = try await Fleet(devices: 3)
        try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "90%,min=1,soak=2s")
        let waited = try await fleet.withGateway { try await fleet.status("spring", "--wait") }
        #expect(waited.exit == 0, "\(waited.err)")
        let store = try await LocalStore(FilePath(fleet.sandbox.path("state/fleet/fleet.db")))
        for (name, reason) in [("lab-1", "rolled-back"), ("lab-2", "rolled-back"), ("lab-3", "holder-gone")] {
            let record =
                #"{"schema":1,"device":"\#(name)","product":"demo","version":"1.0.0","state":"given-up","#
                + #""rollout":"spring","rollout_created":"2026-01-02T03:04:05Z","attempt":3,"gateway":"desk","#
                + #""instance":"4f1c09ab","beat":4,"reason":"\#(reason)","at":"2026-01-02T03:05:00Z"}"#
            let key = RecordKey(.devices, try #require(RecordName(name)))
            _ = try await store.write(Array(record.utf8), at: key, expecting: .absent)
        }
        let run = try await fleet.sandbox.run(
            ["fleet", "report", "--html", "r.html", "--format", "json"] + trust)
        #expect(run.exit == 0, "\(run.err)")
        let report = try run.json().report
        #expect(report?.rollouts?.number == 1 && report?.devices?.number == 6 && report?.failures?.number == 3)
        let page = try await page(fleet.sandbox, "r.html")
        let time = try #require(report?.at?.string)
        #expect(page.json.title?.string == "Fleet report, \(time)" && page.source.contains("<time>\(time)</time>"))
        #expect(page.json.tiles?.string?.hasPrefix("6 devices0 idle0 running0 waiting3 done3 given-up") == true)

        #expect(
            page.text("Rollouts").contains("demo to 1.1.0, release \(fleet.release); devices running <1.1.0; stage 2"))
        let stages = page.rows("Rollouts")
        #expect(stages.count == 3 && stages[0].prefix(3) == ["stage", "devices", "state"])
        #expect(
            stages[1]
                == ["1", "sim-d1", "started", "1", "0", "0", "0", "0", "90 % updated of at least 1, for 2 s"])
        #expect(stages[2] == ["2", "100 %", "current", "2", "0", "0", "2", "1", "–"])
        let heading = ["product", "version", "devices", "idle", "running", "waiting", "done", "given-up", "held"]
        #expect(
            page.rows("Devices") == [
                heading, ["demo", "1.0.0", "3", "0", "0", "0", "0", "3", "0"],
                ["demo", "1.1.0", "3", "0", "0", "0", "3", "0", "0"],
            ])
        let gateway = page.rows("Gateways")
        #expect(gateway.count == 2 && gateway[1].first == "desk" && gateway[1].last == "–", "\(gateway)")
        let reasons = page.rows("Failures")
        #expect(
            reasons.dropFirst().map { Array($0.prefix(3)) } == [
                ["rolled-back", "2", "if enrolled"], ["holder-gone", "1", "no"],
            ])
        #expect(reasons[1][3].contains("the new image did not start"), "\(reasons)")
        #expect(reasons[2][3].contains("otaflash fleet gateways"))
        let failed = page.rows("Failures", table: 1)
        #expect(failed.count == 4)
        #expect(
            failed[1] == ["lab-1", "rolled-back", "spring", "1.0.0", "3", "desk", "2026-01-02T03:05:00Z"], "\(failed)")
        let devices = try await fleet.sandbox.run(["fleet", "devices", "--format", "json"] + trust).json().devices?
            .array
        let obstacle = devices?.first { $0.id?.string == "lab-1" }?.no_update_because?.string
        #expect(obstacle == "given up in spring: create a new rollout")
    }

    @Test("texts of a gateway cannot add elements, and the page refers to no other file")
    func hostile() async throws {
        let sandbox = try Sandbox()
        #expect(try await sandbox.run("keygen", "ops").exit == 0)
        let store = try await LocalStore(FilePath(sandbox.path("fleet.db")))
        let record =
            #"{"schema":1,"gateway":"g1","instance":"4f1c09ab","software":"1'\"><img src=x>","slots":4,"pushing":1,"#
            + #""heard":17,"last_error":"</td><script>alert(1)</script>&lt;\u001b\u0000\ufffe\u202e\n"}"#
        let key = RecordKey(.gateways, try #require(RecordName("g1")))
        _ = try await store.write(Array(record.utf8), at: key, expecting: .absent)
        let run = try await sandbox.run(["fleet", "report", "--html", "r.html", "--store", "fleet.db"] + trust)
        #expect(run.exit == 0 && run.out.contains("gateways  1"), "\(run.err)\(run.out)")
        let page = try await page(sandbox, "r.html")
        let row = try #require(page.rows("Gateways").last)
        #expect(row[1] == #"1'"><img src=x>"#, "\(row)")
        #expect(row[5].hasPrefix("</td><script>alert(1)</script>&lt;") && row[5].hasSuffix("\\n"), "\(row)")
        #expect(row[5].unicodeScalars.allSatisfy { $0.value >= 0x20 && ![0x202E, 0xFFFE].contains($0.value) })
        #expect(page.text("Rollouts").hasSuffix("None.") && page.text("Failures").hasSuffix("None."))
        let names = page.json.names?.array?.compactMap(\.string) ?? []
        #expect(Set(names).isDisjoint(with: ["script", "img", "link", "iframe", "object", "form", "a"]), "\(names)")
        let attributes = page.json.attributes?.array?.compactMap(\.string) ?? []
        #expect(!attributes.contains { $0.hasPrefix("on") || $0 == "src" || $0 == "href" }, "\(attributes)")
        for reference in ["url(", "@import", "https://"] { #expect(!page.source.contains(reference)) }
        #expect(page.source.contains("default-src 'none'") && page.source.contains("prefers-color-scheme: dark"))
        #expect(page.source.contains("width=device-width"))
    }

    @Test("an earlier report is replaced, and another file is refused and not changed")
    func replaced() async throws {
        let sandbox = try Sandbox()
        #expect(try await sandbox.run("keygen", "ops").exit == 0)
        let words = ["fleet", "report", "--store", "fleet.db"] + trust + ["--html"]
        for _ in 1...2 { #expect(try await sandbox.run(words + ["r.html"]).exit == 0) }
        try sandbox.write("index.html", Array("<p>mine</p>".utf8))
        let refused = try await sandbox.run(words + ["index.html", "--format", "json"])
        #expect(try refused.exit == 73 && refused.json().error?.code?.string == "output-exists", "\(refused.err)")
        #expect(try sandbox.read("index.html") == Array("<p>mine</p>".utf8))
        #expect(try await sandbox.run(words + ["absent/r.html"]).exit == 73)
        let other = try await sandbox.run(words + ["ops.pem"])
        #expect(other.exit == 64 && other.err.contains("suffix .html"), "\(other.err)")
    }
}
