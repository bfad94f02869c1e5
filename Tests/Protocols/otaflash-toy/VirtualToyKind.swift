import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate

/// The virtual devices of the toy protocol.
struct VirtualToyKind: VirtualDeviceKind {
    let updateProtocol = UpdateProtocol.toy
    let abilities: [(name: String, description: String)] = []

    private struct File: Codable {
        var schema = DeviceJSON.newestSchema
        var `protocol` = UpdateProtocol.toy.rawValue
        let product: String
    }

    func create(
        _ name: String, _ wanted: NewVirtualDevice, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) {
        try store.create(name, File(product: wanted.product.text), FlashLayout()) { flash in
            try VirtualBootloader(flash: flash).install(
                Array("\(wanted.version)\n".utf8), version: wanted.version, securityCounter: 0)
        }
    }

    func createDemo(
        _ name: String, accepting update: VerifiedUpdate, _ trust: TrustStore, in store: VirtualDeviceStore
    ) throws(VirtualDeviceError) -> String {
        throw VirtualDeviceError(.badConfiguration, "the toy protocol is not the first one of the table")
    }

    func open(
        _ name: String, in store: VirtualDeviceStore, for use: VirtualDeviceUse
    ) throws(VirtualDeviceError) -> any ObservedDevice {
        let flash = try store.flash(of: name, FlashLayout())
        return VirtualDeviceOf<ToyFirmware>((), flash: flash, memory: ToyFirmware.Memory())
    }

    func summary(of name: String, in store: VirtualDeviceStore) throws(VirtualDeviceError) -> VirtualDeviceSummary {
        let product = try store.file(of: name) { (json) throws(VirtualDeviceError) in
            try DeviceJSON.read(json, File.self).product
        }
        let image = try store.permanentImage(of: name, FlashLayout())
        return VirtualDeviceSummary(name: name, updateProtocol, product: product, version: image.version)
    }
}

private final class ToyFirmware: VirtualFirmware {
    final class Memory {}

    static let dataChannel = ToyChannel.data
    static func channels(_ configuration: Void) -> Set<Channel> { ToyChannel.all }

    let booted: VirtualBootloader.Boot
    private let flash: VirtualFlash
    private let send: (UInt16, Channel, [UInt8]) -> Bool
    private var image: [UInt8] = []
    private var size = 0
    private var restartAt: Duration?

    private init(
        _ booted: VirtualBootloader.Boot, _ flash: VirtualFlash, _ send: @escaping (UInt16, Channel, [UInt8]) -> Bool
    ) {
        (self.booted, self.flash, self.send) = (booted, flash, send)
    }

    static func boot(
        _ configuration: Void, _ memory: Memory, flash: VirtualFlash, at now: Duration,
        send: @escaping (UInt16, Channel, [UInt8]) -> Bool
    ) throws(FlashError) -> ToyFirmware? {
        try VirtualBootloader(flash: flash).boot().map { ToyFirmware($0, flash, send) }
    }

    var runningImageLength: Int? { booted.image.size }
    var imageReception: (offset: Int, size: Int)? { size > 0 ? (image.count, size) : nil }
    var due: Duration? { restartAt }

    func run(at now: Duration) -> Bool { restartAt.map { now < $0 } ?? true }
    func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool { true }
    func disconnect(_ connection: UInt16, at now: Duration) {}
    func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) {}

    func read(_ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int) throws(ATTError) -> [UInt8] {
        guard channel == ToyChannel.version else { throw .readNotPermitted }
        return Array(booted.image.version.utf8.dropFirst(offset).prefix(capacity))
    }

    func write(_ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration) throws(ATTError) {
        guard channel == ToyChannel.control else { return image += value }
        switch value.first.flatMap(ToyChannel.Opcode.init) {
        case .erase:
            (image, size) = ([], Int(UInt32(littleEndianBytes: value.dropFirst())))
            _ = send(connection, channel, [value[0]])
        case .count: _ = send(connection, channel, [value[0]] + UInt32(image.count).littleEndianBytes)
        case .install:
            do { try install() } catch { throw .unlikely }
            restartAt = now + .milliseconds(100)
            _ = send(connection, channel, [value[0]])
        case nil: throw .unlikely
        }
    }

    /// Writes the image to the other slot. A toy image begins with its version and a newline.
    private func install() throws(FlashError) {
        let slot = flash.layout.slot(1 - booted.slot)
        for page in stride(from: 0, to: image.count, by: flash.layout.pageSize) { try flash.erasePage(at: slot + page) }
        try flash.program(image + Array(repeating: 0xFF, count: (4 - image.count % 4) % 4), at: slot)
        let version = String(decoding: image.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        let new = BootImage(
            version: version, securityCounter: 0, manifestDigest: nil, size: image.count,
            digest: SHA256.digest(of: image))
        try VirtualBootloader(flash: flash).mark(new, forGood: true)
    }
}
