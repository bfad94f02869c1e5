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

    /// What another user, or an archive, may have put in the place of a lock.
    private static let notLocks = [
        "ln -s ../precious $0", "ln ../precious $0", "ln ../1234 $0", "cp ../precious $0", "mkfifo $0",
        "ln -s ../nothing $0",
        "mkdir $0", "ln -s /dev/null $0",
    ]

    @Test("a file that is not a lock is neither followed, nor waited for, nor changed", arguments: notLocks)
    func notALock(making: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        try sandbox.write("precious", Array("do not touch\n".utf8))
        try sandbox.write("1234", Array("1234\n".utf8))
        let prepared = try await sandbox.shell("cd state && rm -f .kitchen.lock && sh -c '\(making)' .kitchen.lock")
        #expect(prepared.exit == 0, "\(prepared.err)")
        let run = try await sandbox.run("push", "fw.otaf", "--device", "sim:kitchen", "--trust", "release.pub.pem")
        #expect(refused(run) == 73, "\(run.err)")
        #expect(run.err.contains(".kitchen.lock"))
        #expect(
            run.err.contains("is not a lock file of this user's otaflash") && run.err.contains("ls -l "), "\(run.err)")
        #expect(try sandbox.read("precious") == Array("do not touch\n".utf8))
        #expect(try sandbox.read("1234") == Array("1234\n".utf8))
        #expect(!sandbox.exists("nothing"))
    }

    @Test("a file of a virtual device is not opened through a link", arguments: ["flash", "device.json"])
    func linkInAVirtualDevice(file: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        let before = try sandbox.read("state/kitchen/\(file)")
        let made = try await sandbox.shell(
            "mv state/kitchen/\(file) precious && ln -s ../../precious state/kitchen/\(file)")
        #expect(made.exit == 0, "\(made.err)")
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem")
        #expect(refused(run) == 74 && run.err.contains(file), "\(run.err)")
        #expect(try sandbox.read("precious") == before)
    }

    @Test("a lock that belongs to another user is refused and not changed", .enabled(if: geteuid() == 0))
    func anotherUsersLock() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        try sandbox.write("state/.kitchen.lock", Array("1234\n".utf8))
        #expect(chown(sandbox.path("state/.kitchen.lock"), 65534, 65534) == 0)
        let run = try await sandbox.run("push", "fw.otaf", "--device", "sim:kitchen", "--trust", "release.pub.pem")
        #expect(refused(run) == 73 && run.err.contains("belongs to user 65534"), "\(run.err)")
        #expect(try sandbox.read("state/.kitchen.lock") == Array("1234\n".utf8))
    }

    @Test("a lock of a user is taken again, and holds the process id of its new owner alone")
    func lockAgain() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        for old in ["", "7\n", "4194304        \n"] {
            try sandbox.write("state/.kitchen.lock", Array(old.utf8))
            let run = try await sandbox.shell(
                "echo $$; exec \"$0\" \"$@\"", "status", "--device", "sim:kitchen?pace=virtual")
            #expect(run.exit == 0, "\(run.err)")
            let process = try #require(run.out.split(separator: "\n").first)
            let lock = String(decoding: try sandbox.read("state/.kitchen.lock"), as: UTF8.self)
            #expect(lock.split(whereSeparator: \.isWhitespace) == [process])
        }
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
