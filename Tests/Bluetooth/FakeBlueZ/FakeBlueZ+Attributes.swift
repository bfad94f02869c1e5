import BlueZ
import DBus
import Glibc
import OTASimulator
import OTAUpdate

/// The D-Bus objects of the peripheral's services and characteristics.
extension FakeBlueZ {
    /// The SMP characteristic of MCUmgr (Zephyr, `smp_transport.rst`).
    private static let smp = Channel(
        service: 0x8D53_DC1D_1DB7_4CD3_868B_8A52_7460_AA84, characteristic: 0xDA2E_7828_FBCE_4E01_AE9E_2611_7499_7C48)
    private static let flags: [(Channel, [String])] = [
        (VirtualGATT.info, ["read"]), (VirtualGATT.control, ["write", "notify"]),
        (VirtualGATT.data, ["write-without-response", "write"]), (VirtualGATT.progress, ["read", "notify"]),
        (VirtualGATT.version, ["read"]), (VirtualGATT.battery, ["read"]),
        (smp, ["write-without-response", "notify"]),
    ]

    private static func path(service: UInt128) -> DBusObjectPath {
        device.appending(service == VirtualGATT.service ? "service000a" : "service0020")
    }

    static func path(_ channel: Channel) -> DBusObjectPath {
        let number = flags.firstIndex { $0.0 == channel } ?? 0
        return path(service: channel.service).appending("char00\(10 + 2 * number)")
    }

    func exportTable() async {
        let channels = peripheral.channels
        for service in Set(channels.map(\.service)) {
            let interface = DBusInterface(
                BlueZName.gattService,
                properties: [
                    DBusProperty("UUID", .string(BluetoothUUID(service).description)),
                    DBusProperty("Device", .objectPath(Self.device)), DBusProperty("Primary", true),
                ])
            await connection?.unexport(Self.path(service: service))
            try? await connection?.export(Self.path(service: service), [interface])
        }
        for (channel, flags) in Self.flags where channels.contains(channel) {
            try? await connection?.export(Self.path(channel), [characteristic(channel, flags, offersSockets)])
        }
    }

    private nonisolated func characteristic(
        _ channel: Channel, _ flags: [String], _ offersSockets: Bool
    ) -> DBusInterface {
        let options = DBusArgument("options", .properties)
        let value = DBusArgument("value", .bytes)
        let socket = [DBusArgument("fd", .unixFileDescriptor), DBusArgument("mtu", .uint16)]
        var methods = [
            method("ReadValue", takes: [options], returns: [value]) { fake, _ in try await fake.read(channel) },
            method("WriteValue", takes: [value, options]) { try await $0.write(channel, $1) },
            method("StartNotify") { fake, _ in try await fake.startNotify(channel) },
            method("StopNotify") { fake, _ in try await fake.stopNotify(channel) },
        ]
        if offersSockets {
            methods += [
                method("AcquireWrite", takes: [options], returns: socket) { fake, _ in
                    try await fake.acquire(channel, false)
                },
                method("AcquireNotify", takes: [options], returns: socket) { fake, _ in
                    try await fake.acquire(channel, true)
                },
            ]
        }
        return DBusInterface(
            BlueZName.gattCharacteristic, methods: methods,
            properties: [
                DBusProperty("UUID", .string(BluetoothUUID(channel.characteristic).description)),
                DBusProperty("Service", .objectPath(Self.path(service: channel.service))),
                DBusProperty("Flags", .strings(flags)), DBusProperty("MTU", .uint16(247)),
                DBusProperty("Value", .bytes([])), DBusProperty("Notifying", false),
            ])
    }

    /// The simulated time between a request and its response. The sleeps below model this delay; no event could replace them.
    private static let roundTrip = Duration.milliseconds(3)

    private func live() throws -> UInt16 {
        guard let link else { throw DBusError.bluez("Failed", "Not connected") }
        return link
    }

    /// Returns whether a request reaches the characteristic. If bluetoothd's table is stale, the request reaches another attribute.
    private func reachesCharacteristic() throws -> Bool {
        _ = try live()
        guard hasStaleTable else { return true }
        if case .refused(let error) = staleEffect { throw error }
        return false
    }

    private func read(_ channel: Channel) async throws -> [DBusValue] {
        try? await Task.sleep(for: Self.roundTrip)
        guard try reachesCharacteristic() else { return [.bytes([0])] }
        do { return [.bytes(try peripheral.read(try live(), channel, offset: 0, capacity: 512, at: now))] } catch let
            error as ATTError
        {
            throw error.asBlueZ
        }
    }

    private func write(_ channel: Channel, _ call: DBusIncomingCall) async throws -> [DBusValue] {
        let value = try call.arguments.require(0, \.bytes)
        let isCommand = try call.arguments.require(1, \.properties)["type"]?.string == "command"
        let path = Self.path(channel)
        _ = try live()
        guard writeEnds[path] == nil else { throw DBusError.bluez("NotPermitted", "Write acquired") }
        guard !busy.contains(path) else { throw DBusError.bluez("InProgress", "In Progress") }
        guard !isCommand else {
            outbox?.yield(.command(channel, value))
            return []
        }
        busy.insert(path)
        defer { busy.remove(path) }
        // bluetoothd sends a request after the queued commands.
        await withCheckedContinuation { turn in
            guard case .enqueued = outbox?.yield(.request(turn)) else { return turn.resume() }
        }
        try? await Task.sleep(for: Self.roundTrip)
        guard try reachesCharacteristic() else { return [] }
        try await demandBond()
        do {
            try peripheral.write(try live(), channel, value, at: now)
            return []
        } catch let error as ATTError { throw error.asBlueZ }
    }

    /// An item in the queue of bluetoothd for the device.
    enum Outgoing: Sendable {
        case command(Channel, [UInt8])
        /// The position of a request in the queue. The continuation resumes when the request can be sent.
        case request(CheckedContinuation<Void, Never>)
    }

    func sendOut(_ item: Outgoing) {
        switch item {
        case .request(let turn): turn.resume()
        case .command(let channel, let value):
            guard let link, writeEnds[Self.path(channel)] == nil else { return }
            deliver(value, channel, link)
        }
    }

    /// Delivers a write without response. The device drops it if it requires a bond, or if the write reaches another attribute.
    private func deliver(_ value: [UInt8], _ channel: Channel, _ link: UInt16) {
        guard !hasStaleTable, isPaired || passkey == nil else { return }
        try? peripheral.write(link, channel, value, at: now)
    }

    private func startNotify(_ channel: Channel) async throws -> [DBusValue] {
        let path = Self.path(channel)
        guard notifyEnds[path] == nil else { throw DBusError.bluez("NotPermitted", "Notify acquired") }
        try await subscribe(channel, on: true)
        notifying.insert(path)
        return []
    }

    private func stopNotify(_ channel: Channel) async throws -> [DBusValue] {
        guard notifying.remove(Self.path(channel)) != nil else {
            throw DBusError.bluez("Failed", "No notify session started")
        }
        try await subscribe(channel, on: false)
        return []
    }

    private func subscribe(_ channel: Channel, on: Bool) async throws {
        try? await Task.sleep(for: Self.roundTrip)
        if on, let subscriptionError { throw subscriptionError }
        guard try reachesCharacteristic() else { return }
        do { try peripheral.subscribe(try live(), to: channel, on: on, at: now) } catch let error as ATTError {
            throw error.asBlueZ
        }
    }

    // MARK: - Sockets

    private func acquire(_ channel: Channel, _ notifies: Bool) async throws -> [DBusValue] {
        let path = Self.path(channel)
        let link = try live()
        guard (notifies ? notifyEnds : writeEnds)[path] == nil else {
            throw DBusError.bluez("NotPermitted", notifies ? "Notify acquired" : "Write acquired")
        }
        let flag = notifies ? "notify" : "write-without-response"
        guard Self.flags.contains(where: { $0.0 == channel && $0.1.contains(flag) }) else {
            throw DBusError.bluez("NotSupported", "Operation is not supported")
        }
        guard !notifies || !notifying.contains(path) else { throw DBusError.bluez("InProgress", "In Progress") }
        if notifies { try await subscribe(channel, on: true) }
        var pair: [CInt] = [-1, -1]
        let type = CInt(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, type, 0, &pair) == 0 else { throw DBusError.bluez("Failed", "no sockets") }
        if notifies { notifyEnds[path] = pair[0] } else { writeEnds[path] = pair[0] }
        Task { await serve(path, channel, pair[0], link) }
        return [.unixFileDescriptor(DBusFileDescriptor(adopting: pair[1])), .uint16(247)]
    }

    /// Passes the packets of a socket to the peripheral: at most 4 every millisecond. The sleep makes it slow on purpose, so that
    /// packets accumulate in the socket.
    private func serve(_ path: DBusObjectPath, _ channel: Channel, _ descriptor: CInt, _ number: UInt16) async {
        var buffer = [UInt8](repeating: 0, count: 512)
        while link == number, isOpen(path, descriptor) {
            var taken = 0
            while taken < 4 {
                let count = recv(descriptor, &buffer, buffer.count, CInt(MSG_DONTWAIT))
                if count > 0 {
                    deliver(Array(buffer[..<count]), channel, number)
                    taken += 1
                    guard link == number, isOpen(path, descriptor) else { return }
                } else if count == 0 {
                    // The client has closed its end.
                    if notifyEnds[path] == descriptor {
                        notifyEnds[path] = nil
                        try? peripheral.subscribe(number, to: channel, on: false, at: now)
                    } else {
                        writeEnds[path] = nil
                    }
                    _ = close(descriptor)
                    return
                } else {
                    break
                }
            }
            try? await Task.sleep(for: .milliseconds(1))
        }
    }

    private func isOpen(_ path: DBusObjectPath, _ descriptor: CInt) -> Bool {
        writeEnds[path] == descriptor || notifyEnds[path] == descriptor
    }
}

extension ATTError {
    /// The D-Bus error that bluetoothd creates (`create_gatt_dbus_error` in `src/gatt-client.c`).
    fileprivate var asBlueZ: DBusError {
        switch code {
        case 0x02: .bluez("NotPermitted", "Read not permitted")
        case 0x03: .bluez("NotPermitted", "Write not permitted")
        case 0x05, 0x0C, 0x0F: .bluez("NotPermitted", "Not paired")
        case 0x0D: .bluez("InvalidArguments", "Invalid Length")
        default:
            .bluez("Failed", "Operation failed with ATT error: 0x" + (code < 16 ? "0" : "") + String(code, radix: 16))
        }
    }
}
