import Glibc
import OTAFirmware
import OTASigning
import OTASimulator
import SystemPackage
import Testing

@Suite("Stored virtual devices") struct VirtualDeviceStoreTests {
    private func withStore(_ body: (VirtualDeviceStore) throws -> Void) throws {
        try withTemporaryFolder { try body(VirtualDeviceStore(folder: $0.appending("state").appending("otaflash"))) }
    }

    private func create(_ name: String, in store: VirtualDeviceStore) throws {
        var configuration = try Example.configuration()
        configuration.hardware = 2
        try store.create(name, configuration, version: try Example.version("1.0.0-rc.1"), securityCounter: 3)
    }

    private func read(_ path: FilePath) throws -> String {
        let file = try FileDescriptor.open(path, .readOnly)
        return try file.closeAfter {
            let bytes = try [UInt8](unsafeUninitializedCapacity: 65536) { buffer, count in
                count = try file.read(into: UnsafeMutableRawBufferPointer(buffer))
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private func write(_ text: String, to path: FilePath) throws {
        let file = try FileDescriptor.open(path, .writeOnly, options: .truncate)
        _ = try file.closeAfter { try file.writeAll(text.utf8) }
    }

    @Test("a new device can be listed, opened and removed")
    func aNewDeviceIsListedOpenedAndRemoved() throws {
        try withStore { store in
            #expect(try store.list().devices == [])
            try create("zeta", in: store)
            try create("alpha", in: store)
            let devices = try store.list().devices
            #expect(devices.map(\.name) == ["alpha", "zeta"])
            #expect(devices.map(\.version) == ["1.0.0-rc.1", "1.0.0-rc.1"])
            #expect(devices.map(\.securityCounter) == [3, 3])
            #expect(devices.map(\.product) == ["demo", "demo"] && devices.map(\.hardware) == [2, 2])
            let device = try store.open("alpha")
            var expected = try Example.configuration()
            expected.hardware = 2
            expected.limitsWear = false
            #expect(device.configuration == expected)
            _ = device.poll(at: .zero)
            #expect(device.running?.image.version == "1.0.0-rc.1")
            #expect(try store.open("alpha") { $0.battery = 12 }.configuration.battery == 12)
            try store.remove("alpha")
            #expect(try store.list().devices.map(\.name) == ["zeta"])
            #expect(throws: VirtualDeviceError(.noSuchDevice, "")) { try store.open("alpha") }
            #expect(throws: VirtualDeviceError(.noSuchDevice, "")) { try store.remove("alpha") }
            #expect(access(store.folder.appending("alpha").string, F_OK) != 0)
        }
    }

    @Test("a device is stored with or without encodings and a base, and a file without these members has both")
    func encodings() throws {
        try withStore { store in
            for (name, offersEncodings, offersBase) in [("a", true, true), ("b", false, true), ("c", true, false)] {
                var configuration = try Example.configuration()
                configuration.offersEncodings = offersEncodings
                configuration.offersBase = offersBase
                try store.create(name, configuration, version: try Example.version("1.0.0"))
                let opened = try store.open(name).configuration
                #expect(opened.offersEncodings == offersEncodings && opened.offersBase == offersBase)
                let file = try read(store.folder.appending(name).appending("device.json"))
                #expect(file.contains("offers_") != (offersEncodings && offersBase))
            }
        }
    }

    @Test("creating a device fails for an existing name, an invalid name or an invalid configuration")
    func aDeviceIsNotMadeTwiceNorUnderABadNameNorFromNonsense() throws {
        try withStore { store in
            try create("demo", in: store)
            #expect(throws: VirtualDeviceError(.exists, "")) { try create("demo", in: store) }
            for name in ["", ".", "..", "a/b", ".a", "a b", String(repeating: "a", count: 64)] {
                #expect(throws: VirtualDeviceError(.badAddress, "")) { try create(name, in: store) }
            }
            var configuration = try Example.configuration()
            configuration.trustedKeys = []
            #expect(throws: VirtualDeviceError(.badConfiguration, "")) {
                try store.create("other", configuration, version: try Example.version("1.0.0"))
            }
            #expect(try store.list().devices.map(\.name) == ["demo"])
        }
    }

    @Test("folders without device.json are neither listed, removed nor overwritten")
    func whatIsNoDeviceIsNotListed() throws {
        try withStore { store in
            try create("demo", in: store)
            #expect(mkdir(store.folder.appending("locks").string, 0o755) == 0)
            #expect(mkdir(store.folder.appending(".demo.new-1").string, 0o755) == 0)
            #expect(try store.list().devices.map(\.name) == ["demo"])
            #expect(throws: VirtualDeviceError(.noSuchDevice, "")) { try store.remove("locks") }
            // An existing folder with the name of a new device is not overwritten.
            #expect(mkdir(store.folder.appending("taken").string, 0o755) == 0)
            #expect(mkdir(store.folder.appending("taken").appending("precious").string, 0o755) == 0)
            #expect(throws: VirtualDeviceError(.folderExists, "")) { try create("taken", in: store) }
        }
    }

    @Test("the error for a damaged device.json contains its path, and the other devices are still listed")
    func damagedFilesAreNamed() throws {
        try withStore { store in
            try create("other", in: store)
            try create("demo", in: store)
            let path = store.folder.appending("demo").appending("device.json")
            let json = try read(path)
            func damage(_ text: String, _ code: VirtualDeviceError.Code) throws {
                try write(text, to: path)
                let error = #expect(throws: VirtualDeviceError(code, ""), "\(text)") { try store.open("demo") }
                #expect(error?.context.contains(path.string) == true)
                let list = try store.list()
                #expect(list.devices.map(\.name) == ["other"] && list.unreadable.map(\.name) == ["demo"])
                #expect(list.unreadable.first?.error.context == error?.context)
            }
            for length in [0, 1, json.utf8.count / 2, json.utf8.count - 3] {
                try damage(String(json.prefix(length)), .malformed)
            }
            try damage(json.replacing("\"demo\"", with: "\"no product\""), .malformed)
            try damage(json.replacing("\"hardware\" : 2", with: "\"hardware\" : 65536"), .malformed)
            try damage(json.replacing("\"hardware\" : 2", with: "\"hardware\" : \"2\""), .malformed)
            try damage(json.replacing("hardware", with: "hardwear"), .malformed)
            try damage(json.replacing("\"window\" : 64", with: "\"window\" : 0"), .malformed)
            try damage(json.replacing("d75a98", with: "d75a9"), .malformed)
            try damage(json.replacing("\"page_size\" : 512", with: "\"page_size\" : -512"), .malformed)
            try damage(json.replacing("\"slot_size\" : 4096", with: "\"slot_size\" : 9223372036854775807"), .malformed)
            try damage(json.replacing("\"schema\" : 1", with: "\"schema\" : 3"), .fromNewerVersion)
            try damage("[]", .malformed)
            try write(json, to: path)
            _ = try store.open("demo")
        }
    }

    @Test("a flash file of the wrong size or a missing flash file is refused")
    func aFlashOfAnotherSizeIsNoFlash() throws {
        try withStore { store in
            try create("demo", in: store)
            let path = store.folder.appending("demo").appending("flash")
            #expect(truncate(path.string, 100) == 0)
            let error = #expect(throws: VirtualDeviceError(.malformed, "")) { try store.open("demo") }
            #expect(error?.context.contains(path.string) == true)
            #expect(unlink(path.string) == 0)
            let missing = #expect(throws: VirtualDeviceError(.malformed, "")) { try store.open("demo") }
            #expect(missing?.context == "the file \(path) is missing")
            try store.remove("demo")
        }
    }

    @Test(
        "a device without its device.json is damaged: it is listed as unreadable, not created again, and can be removed"
    )
    func aMissingDeviceFile() throws {
        try withStore { store in
            try create("demo", in: store)
            let path = store.folder.appending("demo").appending("device.json")
            #expect(unlink(path.string) == 0)
            let error = #expect(throws: VirtualDeviceError(.malformed, "")) { try store.open("demo") }
            #expect(error?.context == "the file \(path) is missing")
            #expect(try store.list().unreadable.map(\.name) == ["demo"])
            #expect(throws: VirtualDeviceError(.exists, "")) { try create("demo", in: store) }
            try store.remove("demo")
            try create("demo", in: store)
        }
    }

    @Test("a device is stored with the number of signatures that it requires, at most the number of its keys")
    func requiredSignatures() throws {
        try withStore { store in
            var configuration = try Example.configuration()
            configuration.trustedKeys.append(try PublicKey(bytes: Array(repeating: 0x21, count: 32)))
            for count in [1, 2] {
                configuration.requiredSignatures = count
                try store.create("d\(count)", configuration, version: try Example.version("1.0.0"))
                #expect(try store.open("d\(count)").configuration.requiredSignatures == count)
                #expect(try store.summary(of: "d\(count)").requiredSignatures == count)
            }
            for count in [0, 3] {
                configuration.requiredSignatures = count
                #expect(throws: VirtualDeviceError(.badConfiguration, "")) {
                    try store.create("other", configuration, version: try Example.version("1.0.0"))
                }
            }
        }
    }

    /// Runs an update in steps. Each step is a separate process.
    @Test("a device keeps its state between processes, and a killed process is a power cut")
    func aDeviceFolderOutlivesTheProcess() throws {
        try withStore { store in
            try create("demo", in: store)
            let version = VirtualGATT.version
            let progress = VirtualGATT.progress
            try run(store) {
                try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: false)
            }
            // The process that marked the image was killed. The next process finds the image on trial.
            #expect(try run(store, suspends: true) { try await $0.read(version) } == Array("1.1.0".utf8))
            // That process ended normally, so the process after it also finds the image on trial.
            #expect(try run(store) { try await $0.read(progress) }.first == 5)
            // The last process was killed, which is a power cut. The trial has ended.
            #expect(try run(store) { try await $0.read(version) } == Array("1.0.0-rc.1".utf8))
            try run(store) {
                try await $0.install(Example.envelope, Example.image, digests: Example.digests, resume: true)
            }
            try run(store) {
                try await $0.subscribe()
                _ = try await $0.demand(5)
            }
            #expect(try store.list().devices.map(\.version) == ["1.1.0"])
            #expect(try store.list().devices.map(\.securityCounter) == [7])
        }
    }

    /// Runs one process that uses the device of a store.
    ///
    /// - Parameter suspends: whether the process ends normally. Otherwise it is killed.
    @discardableResult
    private func run<Value: Sendable>(
        _ store: VirtualDeviceStore, suspends: Bool = false,
        _ body: @escaping @Sendable (inout TinyHost) async throws -> Value
    ) throws -> Value {
        let time = VirtualTime()
        let device = try store.open("demo")
        let transport = SimulatedTransport(device: device, clock: time)
        let value = try time.run { try await transport.host(body) }
        if suspends { device.suspend() }
        #expect(device.flashViolationCount == 0)
        return value
    }
}
