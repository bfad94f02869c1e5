import DescriptorIO
import OTAFirmware
import OTASMP
package import OTASigning
public import OTAUpdate

/// A virtual device with SMP and MCUboot.
public typealias VirtualSMPDevice = VirtualDeviceOf<SMPFirmware>

extension VirtualSMPDevice {
    /// Creates a device that is switched on at time zero, with the contents of `flash`.
    convenience init(_ configuration: VirtualSMPConfiguration, flash: VirtualFlash, trust: TrustStore) {
        self.init(configuration, flash: flash, memory: SMPFirmware.Memory(configuration, trust))
    }

    /// Creates a new device with a flash that exists only in memory. Slot 0 contains a small image of version 1.0.0. A newly generated key
    /// signs this image.
    ///
    /// - Throws: `badConfiguration`.
    public convenience init(_ configuration: VirtualSMPConfiguration) throws(VirtualDeviceError) {
        do {
            try self.init(configuration, factoryKey: PrivateKey.generate())
        } catch let error as VirtualDeviceError {
            throw error
        } catch {
            throw VirtualDeviceError(.badConfiguration, "cannot create the virtual SMP device: \(error)")
        }
    }

    /// Creates a new device with a factory image that `key` signs. The device's flash exists only in memory.
    ///
    /// - Throws: `badConfiguration`.
    package convenience init(
        _ configuration: VirtualSMPConfiguration, factoryKey key: PrivateKey
    ) throws(VirtualDeviceError) {
        let flash = VirtualFlash(layout: configuration.layout)
        do {
            var configuration = configuration
            configuration.trustedKeys.append(key.publicKey)
            guard let version = SemanticVersion("1.0.0") else { preconditionFailure("1.0.0 is a version") }
            try Self.fillFromFactory(flash, configuration, version, key)
            self.init(configuration, flash: flash, trust: try TrustStore(imageKeys: configuration.imageKeys))
        } catch {
            throw VirtualDeviceError(.badConfiguration, "cannot create the virtual SMP device: \(error)")
        }
    }

    /// Writes the factory image to the erased flash of a new device.
    ///
    /// - Parameters:
    ///   - version: the version of the image. MCUboot limits the major and minor numbers to 8 bits, and the patch number to 16 bits.
    ///   - key: the key that signs the image. The device must trust this key.
    /// - Throws: `badConfiguration` if the version exceeds the limits of MCUboot; the errors of the signature and of the flash.
    static func fillFromFactory(
        _ flash: VirtualFlash, _ configuration: VirtualSMPConfiguration, _ version: SemanticVersion, _ key: PrivateKey
    ) throws {
        guard let major = UInt8(exactly: version.major), let minor = UInt8(exactly: version.minor),
            let revision = UInt16(exactly: version.patch)
        else {
            throw VirtualDeviceError(
                .badConfiguration, "the version is \(version); the limit for an MCUboot image is 255.255.65535")
        }
        let body = Array("factory firmware of \(configuration.board)\n".utf8)
        let image = try SampleImage((major, minor, revision, 0), body: body, key: key).bytes()
        let text = SemanticVersion("\(major).\(minor).\(revision)") ?? version
        try VirtualBootloader(flash: flash).install(image, version: text, securityCounter: 0)
    }

    /// Creates a bond with the device. A device with `isAuthenticated` requires a bond.
    public func bond() { withMemory { $0.isBonded = true } }

    /// Restarts the device into its firmware loader, as a button does. Only for a device with one slot. The loader has no name.
    public func enterLoader() {
        withMemory { $0.bootsLoader = true }
        losePower(at: now)
    }

    public var counters: SMPCounters { withMemory { $0.counters } }
    /// The number of answers so far.
    public var answeredPackets: Int { withMemory { $0.packets } }
    /// The maximum number of packets that waited in the buffers at the same time.
    public var mostPacketsWaiting: Int { withMemory { $0.longestQueue } }
    /// The highest number of values that the server dropped in one boot. The server drops a value if no buffer is free for a new packet.
    public var overflowCount: Int { withMemory { $0.overflows } }

    /// The bytes of the image in the slot that does not contain the running image. Nil if this slot contains no complete image or the
    /// device does not run.
    public var heldImage: [UInt8]? {
        withFirmware { firmware in
            firmware.slots.held.flatMap { held in
                try? flash.withBytes(at: firmware.slots.other, count: held.length) { Array($0) }
            }
        }
    }
}

/// The firmware of a device with SMP. It contains an SMP server, and splits the server's answers into values that fit the link. A restart
/// discards the state of an upload.
public final class SMPFirmware: VirtualFirmware {
    /// The part of the state that a restart does not reset.
    public final class Memory {
        fileprivate let verifier: Verifier
        fileprivate var isBonded: Bool
        fileprivate var packets = 0
        fileprivate var longestQueue = 0
        fileprivate var overflows = 0
        fileprivate var counters = SMPCounters()
        /// The retained boot mode and loader name of a device with one slot, for the next boot. Only a restart sets them: a device that
        /// loses its power loses its RAM.
        fileprivate var bootsLoader = false
        fileprivate var loaderName: [UInt8]?

        init(_ configuration: VirtualSMPConfiguration, _ trust: TrustStore) {
            // The user chose the trusted keys when the device was created. If the demo key is one of them, the device must accept the demo
            // key.
            verifier = Verifier(trust: trust, policy: TrustPolicy(allowsDemoKey: true))
            isBonded = !configuration.isAuthenticated
        }
    }
    private struct Connection {
        var valueLength: Int
        var isSubscribed = false
    }
    private let server: SMPServer
    private let memory: Memory
    private let loaderName: [UInt8]?
    private let send: (UInt16, Channel, [UInt8]) -> Bool
    private var connections: [UInt16: Connection] = [:]
    /// The values that wait for a free buffer of the Bluetooth stack.
    private var unsent: [(connection: UInt16, value: [UInt8])] = []

    private init(
        _ server: SMPServer, _ memory: Memory, loaderName: [UInt8]? = nil,
        _ send: @escaping (UInt16, Channel, [UInt8]) -> Bool
    ) {
        self.server = server
        self.memory = memory
        self.send = send
        self.loaderName = loaderName
    }

    public static var dataChannel: Channel { SMPChannel.value }

    public static func channels(_ configuration: VirtualSMPConfiguration) -> Set<Channel> { [SMPChannel.value] }

    public static func boot(
        _ configuration: VirtualSMPConfiguration, _ memory: Memory, flash: VirtualFlash, at now: Duration,
        send: @escaping (UInt16, Channel, [UInt8]) -> Bool
    ) throws(FlashError) -> SMPFirmware? {
        if configuration.loader != nil {
            let (bootsLoader, name) = (memory.bootsLoader, memory.loaderName)
            (memory.bootsLoader, memory.loaderName) = (false, nil)
            guard let (program, boot) = try SMPSlots.boot(flash, memory.verifier, intoLoader: bootsLoader) else {
                return nil
            }
            let slots = SMPSlots(flash: flash, boot: boot)
            return SMPFirmware(
                SMPServer(configuration, slots, counters: memory.counters, program: program), memory,
                loaderName: name, send)
        }
        try SMPSlots.refuseForeignImages(on: flash, memory.verifier)
        guard let boot = try VirtualBootloader(flash: flash).boot() else { return nil }
        let server = SMPServer(configuration, SMPSlots(flash: flash, boot: boot), counters: memory.counters)
        return SMPFirmware(server, memory, send)
    }

    public static func extraBootTime(_ configuration: VirtualSMPConfiguration, flash: VirtualFlash) -> Duration {
        VirtualBootloader(flash: flash).state?.trial == .pending ? configuration.swapTime : .zero
    }

    private static let nameOfLoader = "FL_VIRTUAL0"

    public static func programName(_ configuration: VirtualSMPConfiguration) -> String? {
        configuration.loader == nil ? nil : nameOfLoader
    }

    public var place: ProgramPlace? {
        guard runsLoader, server.configuration.loader?.changesAddress == true else { return .ownAddress }
        return loaderName == Array(Self.nameOfLoader.utf8) ? .otherAddress : .unknownAddress
    }

    public var runsLoader: Bool { server.program == .loader }
    public var booted: VirtualBootloader.Boot { server.slots.boot }
    public var runningImageLength: Int? { server.slots.running?.length }
    public var imageReception: (offset: Int, size: Int)? { server.reception.map { ($0.offset, $0.size) } }
    public var due: Duration? { server.due }
    fileprivate var slots: SMPSlots { server.slots }

    /// Sends the answers that are due. Returns false if a restart is due or a flash operation failed.
    public func run(at now: Duration) -> Bool {
        defer { memory.counters = server.counters }
        while let due = server.due, due <= now {
            if let restart = server.restartsAt, restart <= now {
                memory.bootsLoader = server.restartsIntoLoader
                memory.loaderName = server.loaderName.saved ?? loaderName
                return false
            }
            do throws(FlashError) {
                if let (connection, bytes) = try server.answer(at: now) { notify(connection, bytes) }
            } catch {
                return false
            }
        }
        memory.longestQueue = max(memory.longestQueue, server.longestQueue)
        memory.overflows = max(memory.overflows, server.overflows)
        return true
    }

    /// Sends an answer as notifications. Each notification is at most as long as the link allows.
    private func notify(_ connection: UInt16, _ bytes: [UInt8]) {
        memory.packets += 1
        guard let peer = connections[connection], peer.isSubscribed else { return }
        for start in stride(from: 0, to: bytes.count, by: peer.valueLength) {
            unsent.append((connection, Array(bytes[start...].prefix(peer.valueLength))))
        }
        sendWaiting()
    }

    public func sendWaiting() {
        while let first = unsent.first, send(first.connection, SMPChannel.value, first.value) { unsent.removeFirst() }
    }

    public func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool {
        connections[connection] = Connection(valueLength: valueLength)
        return true
    }

    public func updateLink(_ connection: UInt16, valueLength: Int) {
        connections[connection]?.valueLength = valueLength
    }

    public func disconnect(_ connection: UInt16, at now: Duration) {
        connections[connection] = nil
        unsent.removeAll { $0.connection == connection }
        server.disconnected(connection)
    }

    public func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) throws(ATTError) {
        try check(channel)
        connections[connection]?.isSubscribed = on
    }

    public func read(
        _ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int
    ) throws(ATTError) -> [UInt8] { throw channel == SMPChannel.value ? .readNotPermitted : .attributeNotFound }

    public func write(
        _ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration
    ) throws(ATTError) {
        try check(channel)
        server.write(value, from: connection, at: now)
    }

    private func check(_ channel: Channel) throws(ATTError) {
        guard channel == SMPChannel.value else { throw .attributeNotFound }
        guard memory.isBonded else { throw .insufficientAuthentication }
    }
}
