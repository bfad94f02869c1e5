import FoundationEssentials
import Glibc
import Testing

/// Full disks, foreign lock files and missing permissions: each command reports the cause and a hint, and leaves no partial files.
@Suite("Full disks, lock files and permissions") struct MachineTests {
    /// Limits each file to 4 KiB, which simulates a full disk.
    private static let fullDisk = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""

    /// Expects a hint and an empty stdout; returns the exit status.
    private func refused(_ run: Run) -> Int32? {
        #expect(run.out.isEmpty && run.err.contains("hint: "), "\(run.err)")
        return run.exit
    }

    @Test("sign on a full disk exits with 74 and leaves no partial bundle")
    func thereIsNoRoomForABundle() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        try sandbox.write("image", Sandbox.image(20_000))
        let run = try await sandbox.shell(
            Self.fullDisk, "sign", "image", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o",
            "out.otaf")
        #expect(refused(run) == 74)
        #expect(try sandbox.names() == ["home", "image", "release.pem", "release.pub.pem"])
    }

    @Test("simulate create on a full disk exits with 74 and leaves no partial device")
    func thereIsNoRoomForAVirtualDevice() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let run = try await sandbox.shell(
            Self.fullDisk, "simulate", "create", "bath", "--product", "demo", "--version", "1.0.0", "--trust",
            "release.pub.pem")
        #expect(refused(run) == 74)
        #expect(try sandbox.names(in: "state").filter { !$0.hasSuffix(".lock") }.isEmpty)
    }

    /// Runs a command on a machine without /proc.
    private static let withoutProc = #"""
        unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$0" "$@"' "$0" "$@"
        """#

    /// True if this process may mount a file system, as root outside a container may.
    private static func canMount() async throws -> Bool {
        try await Sandbox().shell("unshare --mount mount -t tmpfs none /proc").exit == 0
    }

    @Test("without /proc a command cannot read its arguments and fails", .enabled { try await canMount() })
    func noProcFileSystem() async throws {
        let sandbox = try Sandbox()
        for words in [["verify", "fw.otaf"], [], ["--version"]] {
            let run = try await sandbox.shell(Self.withoutProc, arguments: words)
            #expect(refused(run) == 74 && run.err.contains("the arguments cannot be read"), "\(run.err)")
        }
    }

    @Test("push exits with 73 when the lock path of the device is a folder")
    func aDeviceCannotBeLocked() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 5000)
        try await sandbox.create()
        try sandbox.remove("state/.kitchen.lock")
        try sandbox.makeFolder("state/.kitchen.lock")
        #expect(
            refused(try await sandbox.run("push", "fw.otaf", "--device", "sim:kitchen", "--trust", "release.pub.pem"))
                == 73)
    }

    /// Commands that create a file other than a lock at the path of the lock. Another user or an archive could do the same.
    private static let notLocks = [
        "ln -s ../precious $0", "ln ../precious $0", "ln ../1234 $0", "cp ../precious $0", "mkfifo $0",
        "ln -s ../nothing $0",
        "mkdir $0", "ln -s /dev/null $0",
    ]

    @Test("a file that is not a lock is not followed, not waited for and not changed", arguments: notLocks)
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

    @Test("a lock of another user is refused and not changed", .enabled(if: geteuid() == 0))
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

    @Test("a lock left by the same user is locked again and holds only the process ID of its new owner")
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

    @Test("commands that write fail without changes in read-only folders, and verify still works")
    func foldersThatCannotBeWritten() async throws {
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

    /// A truncated flash file, and a device file of a later schema.
    @Test(
        "a virtual device with a truncated flash or a later schema is refused with 65 and not changed",
        arguments: [
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

    /// Removes the file if it exists.
    fileprivate func remove(_ name: String) throws {
        if exists(name) { try FileManager.default.removeItem(atPath: path(name)) }
    }
}
