import FoundationEssentials
import Glibc
import Testing

/// A machine that has no room, or on which somebody has been before: each command says what is the matter and what to type, and
/// leaves nothing half made.
@Suite struct MachineTests {
    /// Files may have 4 KiB, as on a disk that is full.
    private static let fullDisk = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""

    /// A hint and no word on stdout; its exit status.
    private func refused(_ run: Run) -> Int32? {
        #expect(run.out.isEmpty && run.err.contains("hint: "), "\(run.err)")
        return run.exit
    }

    @Test func thereIsNoRoomForABundle() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        try sandbox.write("image", Array(repeating: 7, count: 20_000))
        let run = try await sandbox.shell(
            Self.fullDisk, "sign", "image", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o",
            "out.otaf")
        #expect(refused(run) == 74)
        #expect(try sandbox.names() == ["home", "image", "release.pem", "release.pub.pem"])
    }

    @Test func thereIsNoRoomForAVirtualDevice() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let run = try await sandbox.shell(
            Self.fullDisk, "simulate", "create", "bath", "--product", "demo", "--version", "1.0.0", "--trust",
            "release.pub.pem")
        #expect(refused(run) == 74)
        #expect(try sandbox.names(in: "state").filter { !$0.hasSuffix(".lock") }.isEmpty)
    }

    @Test func aDeviceCannotBeLocked() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        try sandbox.remove("state/.kitchen.lock")
        try sandbox.makeFolder("state/.kitchen.lock")
        #expect(
            refused(try await sandbox.run("push", "fw.otaf", "--device", "sim:kitchen", "--trust", "release.pub.pem"))
                == 73)
    }

    /// Where nothing may be written nothing is lost, and what only reads goes on.
    @Test func foldersThatCannotBeWritten() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        try sandbox.makeFolder("trust")
        try sandbox.write("trust/release.pub.pem", try sandbox.read("release.pub.pem"))
        chmod(sandbox.path("trust/release.pub.pem"), 0o444)
        for file in ["state", "trust"] { chmod(sandbox.path(file), 0o555) }
        let before = try sandbox.names(in: "state")
        let create = ["simulate", "create", "bath", "--product", "demo", "--version", "1.0.0", "--trust", "trust"]
        let creation = try await sandbox.runWithoutRights(create)
        #expect(refused(creation) == 74)
        #expect(creation.err.contains(": Permission denied\n"), "\(creation.err)")
        let push = ["push", "fw.otaf", "--device", "sim:kitchen", "--trust", "trust"]
        #expect(refused(try await sandbox.runWithoutRights(push)) == 73)
        #expect(refused(try await sandbox.runWithoutRights(["keygen", "mine"])) == 73)
        #expect(try await sandbox.runWithoutRights(["verify", "fw.otaf", "--trust", "trust"]).exit == 0)
        #expect(try sandbox.names(in: "state") == before)
        for file in ["state", "trust"] { chmod(sandbox.path(file), 0o755) }
    }

    /// A flash that was cut short, and a device that a later version made.
    @Test(arguments: [
        ("state/kitchen/flash", Array("short".utf8)), ("state/kitchen/device.json", Array("{\"schema\":9}".utf8)),
    ])
    func aDeviceIsNotWhatItWas(file: (name: String, bytes: [UInt8])) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        try sandbox.write(file.name, file.bytes)
        #expect(refused(try await sandbox.run("status", "--device", "sim:kitchen")) == 65)
        #expect(try sandbox.read(file.name) == file.bytes)
    }
}

extension Sandbox {
    fileprivate func names(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path(folder)).sorted()
    }

    /// Whether it is there or not.
    fileprivate func remove(_ name: String) throws {
        if exists(name) { try FileManager.default.removeItem(atPath: path(name)) }
    }
}
