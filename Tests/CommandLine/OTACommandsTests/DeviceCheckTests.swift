import SystemPackage
import Testing

@Suite("Command device-check") struct DeviceCheckCommandTests {
    @Test("device-check passes for a virtual device, with a line and a section for each rule")
    func passes() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let device = "sim:kitchen?pace=virtual"
        let text = try await sandbox.run("device-check", "--device", device)
        #expect(text.exit == 0, "\(text.err)")
        #expect(text.out.contains("pass     unknown-opcode: ") && text.out.contains("  docs/ota-profile.md#control\n"))
        #expect(text.out.contains("skipped  image-resume: ") && text.out.contains("(needs --bundle)"))
        let all = try await sandbox.run(
            "device-check", "--device", device, "--bundle", "fw.otaf", "--trust", "release.pub.pem", "--format", "json")
        #expect(all.exit == 0, "\(all.err)")
        let answer = try all.json()
        #expect(answer.failed?.number == 0 && answer.skipped?.number == 0 && answer.passed?.number ?? 0 > 40)
        #expect(answer.rules?[0]?.members == ["rule", "section", "statement", "verdict"])
        let status = try await sandbox.run("status", "--device", device, "--format", "json").json()
        #expect(status.device?.running_version?.string == "1.0.0" && status.transfer == nil)
    }

    @Test("each rule of device-check names a section of the specification that exists")
    func sections() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let text = try await sandbox.run("device-check", "--device", "sim:kitchen?pace=virtual").out
        let page = String(
            decoding: try sandbox.read(FilePath(Sandbox.repository("docs/ota-profile.md"))), as: UTF8.self)
        let titles = page.split(separator: "\n").filter { $0.hasPrefix("##") }
        let anchors = titles.map { title in
            String(
                title.drop { $0 == "#" || $0 == " " }.lowercased().map { $0 == " " ? "-" : $0 }
                    .filter { $0.isLetter || $0 == "-" })
        }
        let lines = text.split(separator: "\n")
        let linked = Set(lines.compactMap { $0.split(separator: "#").dropFirst().last }.map(String.init))
        #expect(linked.count >= 5 && linked.isSubset(of: anchors), "\(linked.subtracting(anchors))")
    }

    @Test("device-check fails with 76 and the name of the rule for a device without the profile")
    func fails() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create("--protocol", "smp")
        let run = try await sandbox.run("device-check", "--device", "sim:kitchen?pace=virtual", "--format", "json")
        #expect(run.exit == 76)
        let answer = try run.json()
        #expect(answer.error?.code?.string == "protocol-violation")
        #expect(answer.error?.message?.string?.contains("characteristics") == true)
        #expect(answer.failed?.number == 1 && answer.rules?[0]?.fix?.string?.isEmpty == false)
        let text = try await sandbox.run("device-check", "--device", "sim:kitchen?pace=virtual")
        #expect(text.exit == 76 && text.out.contains("FAIL     characteristics: "))
        #expect(text.out.contains("         found: the service has no ") && text.out.contains("         to fix: "))
    }

    @Test("device-check refuses a partial upload only by leaving it: the upload is still there afterwards")
    func keepsUpload() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        #expect(try await sandbox.push("sim:kitchen?pace=virtual&gone-at=0.5").exit == 75)
        let device = "sim:kitchen?pace=virtual"
        let before = try await sandbox.run("status", "--device", device, "--format", "json").json().transfer?.offset?
            .number
        let run = try await sandbox.run("device-check", "--device", device)
        #expect(run.exit == 0 && run.out.contains("DISCARD would discard the partial upload"), "\(run.err)\(run.out)")
        let after = try await sandbox.run("status", "--device", device, "--format", "json").json().transfer?.offset?
            .number
        #expect(before != nil && before == after)
    }

    @Test("device-check refuses UDP, SMP and a bundle that no trusted key has signed")
    func refuses() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        #expect(try await sandbox.run("device-check", "--device", "udp:127.0.0.1").exit == 64)
        #expect(try await sandbox.run("device-check", "--device", "sim:kitchen", "--protocol", "smp").exit == 64)
        try await sandbox.run("keygen", "other")
        let run = try await sandbox.run(
            "device-check", "--device", "sim:kitchen?pace=virtual", "--bundle", "fw.otaf", "--trust", "other.pub.pem")
        #expect(run.exit == 77, "\(run.err)")
    }
}
