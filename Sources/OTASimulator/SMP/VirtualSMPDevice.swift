import DescriptorIO
import OTAFirmware
import OTASMP
import OTASigning
public import OTAUpdate

/// A simulated device with SMP and MCUboot: a server with a virtual flash and a virtual bootloader.
///
/// Like `VirtualDevice`, it is independent of the link: each call passes a received value and the time, and the device calls a closure for
/// each value to send. The type is thread-safe. Its closures are called under its lock and must not call the device.
public final class VirtualSMPDevice: SimulatedDevice, @unchecked Sendable {
    public let configuration: VirtualSMPConfiguration

    enum Power {
        /// Off or starting. The bootloader finishes at this time.
        case off(until: Duration)
        case on(SMPServer)
        case unbootable
        case suspended
    }
    struct Connection {
        var valueLength: Int
        var isSubscribed = false
    }
    let lock = Lock()
    let flash: VirtualFlash
    private let verifier: Verifier
    var power = Power.off(until: .zero)
    var time = Duration.zero
    private var connections: [UInt16: Connection] = [:]
    /// The values that wait for a free buffer of the stack.
    private var unsent: [(connection: UInt16, value: [UInt8])] = []
    private var bonded: Bool
    var restarts = 0
    var packets = 0
    var longestQueue = 0
    var overflows = 0
    private var onNotification: @Sendable (UInt16, Channel, [UInt8]) -> Bool = { _, _, _ in true }
    private var onRestart: @Sendable () -> Void = {}

    /// The time from a restart until the firmware runs, without the time for a swap.
    public static let bootTime = Duration.milliseconds(800)

    /// Creates a device that is switched on at time zero.
    init(_ configuration: VirtualSMPConfiguration, flash: VirtualFlash, trust: TrustStore) {
        self.configuration = configuration
        self.flash = flash
        // The creator of the device chose its trusted keys, so the demo key is allowed if it is one of them.
        verifier = Verifier(trust: trust, policy: TrustPolicy(allowsDemoKey: true))
        bonded = !configuration.isAuthenticated
    }

    public func observe(
        onNotification: @escaping @Sendable (_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool,
        onRestart: @escaping @Sendable () -> Void
    ) {
        lock.locked {
            self.onNotification = onNotification
            self.onRestart = onRestart
        }
    }

    /// Creates the bond that a device with `isAuthenticated` requires.
    public func bond() { lock.locked { bonded = true } }

    // MARK: Events of the Bluetooth stack

    public var channels: Set<Channel> { [SMPChannel.value] }
    public var dataChannel: Channel { SMPChannel.value }

    public func reachable(at now: Duration) -> Duration? {
        lock.locked {
            advance(to: now)
            return switch power {
            case .on: time
            case .off(let end): end
            case .unbootable, .suspended: nil
            }
        }
    }

    public func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool {
        lock.locked {
            advance(to: now)
            guard case .on = power else { return false }
            connections[connection] = Connection(valueLength: valueLength)
            return true
        }
    }

    public func updateLink(_ connection: UInt16, valueLength: Int) {
        lock.locked { connections[connection]?.valueLength = valueLength }
    }

    public func disconnect(_ connection: UInt16, at now: Duration) {
        lock.locked {
            advance(to: now)
            guard case .on(let server) = power, connections.removeValue(forKey: connection) != nil else { return }
            unsent.removeAll { $0.connection == connection }
            server.disconnected(connection)
        }
    }

    public func isConnected(_ connection: UInt16) -> Bool { lock.locked { connections[connection] != nil } }

    public func subscribe(
        _ connection: UInt16, to channel: Channel, on: Bool, at now: Duration
    ) throws(ATTError) {
        try lock.locked { () throws(ATTError) in
            _ = try server(of: connection, channel, at: now)
            connections[connection]?.isSubscribed = on
        }
    }

    public func read(
        _ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int, at now: Duration
    ) throws(ATTError) -> [UInt8] { throw channel == SMPChannel.value ? .readNotPermitted : .attributeNotFound }

    public func write(
        _ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration
    ) throws(ATTError) {
        try lock.locked { () throws(ATTError) in
            let server = try server(of: connection, channel, at: now)
            server.write(value, from: connection, at: time)
            runPendingWork(server)
        }
    }

    public func poll(at now: Duration) -> Duration? {
        lock.locked {
            advance(to: now)
            flush()
            return switch power {
            case .on(let server): server.due
            case .off(let end): end
            case .unbootable, .suspended: nil
            }
        }
    }

    // MARK: Power

    public func losePower(at now: Duration) {
        lock.locked {
            advance(to: now)
            if case .on = power { shutDown() }
        }
    }

    /// Suspends the device permanently before the normal end of its process, as `VirtualDevice.suspend` does. A partially received image is
    /// lost, as after any restart.
    public func suspend() {
        lock.locked {
            if case .on(let server) = power, server.slots.boot.isOnTrial {
                try? VirtualBootloader(flash: flash).renewTrial()
            }
            power = .suspended
            connections = [:]
            unsent = []
        }
    }

    public func schedule(_ cuts: [PowerCut], worn: [Int]) -> Int {
        lock.locked { flash.schedule(cuts, worn: worn) }
    }

    public func schedule(_ faults: [FlashFault]) { lock.locked { flash.schedule(faults) } }

    // MARK: Private

    private func server(of connection: UInt16, _ channel: Channel, at now: Duration) throws(ATTError) -> SMPServer {
        advance(to: now)
        guard case .on(let server) = power, connections[connection] != nil else { throw .unlikely }
        guard channel == SMPChannel.value else { throw .attributeNotFound }
        guard bonded else { throw .insufficientAuthentication }
        return server
    }

    /// Advances the time to `now`. Runs boots and responses, each at its own time.
    private func advance(to now: Duration) {
        while true {
            switch power {
            case .off(let end) where end <= now:
                time = max(time, end)
                boot()
            case .on(let server):
                guard let due = server.due, due <= now else {
                    time = max(time, now)
                    return
                }
                time = max(time, due)
                runPendingWork(server)
            case .off, .unbootable, .suspended:
                time = max(time, now)
                return
            }
        }
    }

    private func boot() {
        defer { flash.isPowered = true }
        do throws(FlashError) {
            try SMPSlots.refuseForeignImages(on: flash, verifier)
            guard let boot = try VirtualBootloader(flash: flash).boot() else {
                return flash.isPowered ? power = .unbootable : bootAgain()
            }
            power = .on(SMPServer(configuration, SMPSlots(flash: flash, boot: boot)))
        } catch {
            bootAgain()
        }
    }

    /// Restarts after a power cut during a write of the bootloader.
    private func bootAgain() {
        power = .off(until: time + Self.bootTime)
        restarts += 1
    }

    /// Sends the responses that are due, and restarts if a restart is due.
    private func runPendingWork(_ server: SMPServer) {
        while let due = server.due, due <= time {
            if let restart = server.restartsAt, restart <= time { return shutDown() }
            do throws(FlashError) {
                if let (connection, bytes) = try server.answer(at: time) { notify(connection, bytes, at: server) }
            } catch {
                return shutDown()
            }
        }
        longestQueue = max(longestQueue, server.longestQueue)
        overflows = max(overflows, server.overflows)
    }

    /// Sends a response, split into values of the link's length.
    private func notify(_ connection: UInt16, _ bytes: [UInt8], at server: SMPServer) {
        packets += 1
        guard let peer = connections[connection], peer.isSubscribed else { return }
        for start in stride(from: 0, to: bytes.count, by: peer.valueLength) {
            unsent.append((connection, Array(bytes[start...].prefix(peer.valueLength))))
        }
        flush()
    }

    private func flush() {
        while let first = unsent.first, onNotification(first.connection, SMPChannel.value, first.value) {
            unsent.removeFirst()
        }
    }

    private func shutDown() {
        flash.isPowered = true
        let isSwap = VirtualBootloader(flash: flash).state?.trial == .pending
        power = .off(until: time + Self.bootTime + (isSwap ? configuration.swapTime : .zero))
        connections = [:]
        unsent = []
        restarts += 1
        onRestart()
    }
}
