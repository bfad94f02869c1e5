public import BlueZ
public import Logging
package import OTALinks
import OTAProtocol
public import OTAUpdate

/// The parameters of a scan.
public struct DeviceSearch: Sendable {
    /// The duration of the scan.
    public var duration = Duration.seconds(10)
    /// The minimum signal strength of the wanted devices in dBm; nil: any signal strength.
    public var minimumRSSI: Int?
    /// The name of the wanted devices; nil: any name.
    public var name: String?
    /// The update protocols of the wanted devices; empty: all devices, also devices that cannot be updated.
    public var protocols = UpdateProtocol.allCases
    /// True if the scan connects to devices to read product and version.
    public var reads = true

    public init() {}
}

/// A device that a scan has found.
public struct ScannedDevice: Encodable, Sendable, Equatable {
    /// The address of the device, in the format of `DeviceAddress`.
    public let address: String
    public private(set) var name: String?
    /// The signal strength at the adapter that hears the device best, in dBm; nil: unknown.
    public private(set) var rssi: Int?
    /// The adapter over which `push` updates the device; nil: only one adapter was given.
    package var adapter: String?
    /// The product and the version, which the scan reads over a connection; nil: not read.
    public internal(set) var product, version: String?
    /// The update protocols of the device, as raw values of `UpdateProtocol`.
    public private(set) var protocols: [String] = []
    /// The reason why product and version could not be read; nil: they were read, or the scan did not try to read them.
    public internal(set) var unread: String?
    /// The signal strength at each adapter that hears the device, in dBm; nil: unknown.
    package private(set) var heard: [String: Int?] = [:]
    /// True if the device has a random address that it changes every few minutes. Bluetooth Core 5.4, Vol 6, Part B, 1.3.2: the two
    /// highest bits of a random address are 11 only if the address is static.
    package let hasPrivateAddress: Bool

    private enum CodingKeys: CodingKey {
        case address, name, rssi, adapter, product, version, protocols, unread
    }

    init(_ device: BluetoothDevice) {
        address = "ble:\(device.address)"
        hasPrivateAddress = device.addressKind == .random && device.address.value >> 46 != 0b11
        note(device)
    }

    /// Merges new advertising data. The advertising data of a device can arrive in two parts.
    ///
    /// When an update protocol of the device is known, the scan can connect to the device. BlueZ then replaces the advertised name with the
    /// name from the GAP service. Users know the advertised name. So `name` keeps the advertised name as soon as a protocol is known.
    mutating func note(_ device: BluetoothDevice) {
        if name == nil || protocols.isEmpty { name = device.name ?? name }
        protocols += Protocols.advertised(by: device).map(\.updateProtocol.rawValue).filter { !protocols.contains($0) }
        let known: Int? = heard[device.adapterName] ?? nil
        heard.updateValue(device.rssi ?? known, forKey: device.adapterName)
        rssi = heard.values.compactMap(\.self).max() ?? rssi
    }

    /// Records that an adapter does not hear the device any more.
    ///
    /// - Returns: true if no adapter hears the device.
    mutating func disappeared(from adapter: String) -> Bool {
        heard[adapter] = nil
        rssi = heard.values.compactMap(\.self).max() ?? rssi
        return heard.isEmpty
    }
}

/// Finds the updatable Bluetooth devices in range.
public struct DeviceScan: Sendable {
    /// A change in the list of found devices.
    public enum Change: Sendable {
        case appeared(ScannedDevice)
        /// Product and version of a device were read.
        case identified
        /// A device has changed its advertising data or has disappeared, or its product and version could not be read.
        case changed
    }

    private let search: DeviceSearch
    private let adapters: [String?]
    private let logger: Logger
    private let links: (any LinkAccount)?
    private let shared: SharedBlueZClient?

    /// Creates a scan.
    ///
    /// - Parameters:
    ///   - adapter: the Bluetooth adapter, such as `hci0`; nil: the first powered adapter.
    ///   - links: the record of the open Bluetooth links; see `Updater.Options.links`.
    public init(
        _ search: DeviceSearch = DeviceSearch(), over adapter: String? = nil,
        logger: Logger = Logger(label: "ota.client"),
        links: (any LinkAccount)? = nil
    ) {
        self.search = search
        adapters = [adapter]
        self.logger = logger
        self.links = links
        shared = nil
    }

    /// Creates a scan over several adapters at the same time. Each device appears once in the result.
    ///
    /// - Parameters:
    ///   - adapters: the adapters; empty: the first powered adapter.
    ///   - client: the client that also opens the links of this program, so that the scan and the links take turns; nil: a new client.
    package init(
        _ search: DeviceSearch, over adapters: [String], logger: Logger, links: (any LinkAccount)? = nil,
        sharing client: SharedBlueZClient? = nil
    ) {
        self.search = search
        shared = client
        self.adapters = adapters.isEmpty ? [nil] : adapters
        self.logger = logger
        self.links = links
    }

    /// Scans for the duration of the search.
    ///
    /// - Parameter report: called with each change and the devices found so far, strongest signal first.
    /// - Returns: the devices, strongest signal first.
    /// - Throws: `BlueZError`.
    public func run(
        report: @escaping @Sendable (Change, [ScannedDevice]) -> Void = { _, _ in }
    ) async throws -> [ScannedDevice] {
        let board = ScanBoard(report)
        try await scan(shared ?? SharedBlueZClient(logger: logger, links: links), board)
        return await board.list
    }

    private func scan(_ shared: SharedBlueZClient, _ board: ScanBoard) async throws {
        let client = try await shared.client()
        let services = Protocols.all.filter { search.protocols.contains($0.updateProtocol) }.flatMap(
            \.definition.services)
        let filter = ScanFilter(
            services: Set(services.map { BluetoothUUID($0) }), minimumRSSI: search.minimumRSSI, name: search.name)
        let (found, feed) = AsyncStream.makeStream(of: BluetoothDevice.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { feed.finish() }
                try await withThrowingTaskGroup(of: Void.self) { scans in
                    for adapter in adapters {
                        scans.addTask { try await scan(client, adapter, filter, board, feed) }
                    }
                    try await scans.waitForAll()
                }
            }
            if search.reads { group.addTask { await read(found, shared, board) } }
            try await group.waitForAll()
        }
    }

    /// Scans over one adapter.
    private func scan(
        _ client: BlueZClient, _ adapter: String?, _ filter: ScanFilter, _ board: ScanBoard,
        _ feed: AsyncStream<BluetoothDevice>.Continuation
    ) async throws {
        try await client.withScan(over: adapter, for: filter) { scan in
            try await within(search.duration) {
                for try await event in scan {
                    if let device = await board.note(event) { feed.yield(device) }
                }
            }
        }
    }

    /// Reads product and version from up to 3 devices at the same time. Only the reads overlap: an adapter establishes one connection
    /// after the other.
    private func read(
        _ found: AsyncStream<BluetoothDevice>, _ client: SharedBlueZClient, _ board: ScanBoard
    ) async {
        await withTaskGroup(of: Void.self) { group in
            var running = 0
            for await device in found {
                if running == 3 { await group.next() } else { running += 1 }
                group.addTask { await read(device, client, board) }
            }
        }
    }

    private func read(_ device: BluetoothDevice, _ client: SharedBlueZClient, _ board: ScanBoard) async {
        guard let definition = Protocols.advertised(by: device).first?.definition else { return }
        var tried: [String] = []
        var reason = ""
        while let adapter = await board.adapter(hearing: device, except: tried) {
            guard let failure = await read(device, definition, adapter, client, board) else { return }
            logger.debug("\(device.address) was not read over \(adapter): \(failure)")
            tried.append(adapter)
            reason = failure
        }
        await board.update(device.address, unread: reason)
    }

    /// Reads product and version over one adapter.
    ///
    /// - Returns: nil, or the reason why they could not be read.
    private func read(
        _ device: BluetoothDevice, _ definition: any ProtocolDefinition, _ adapter: String,
        _ client: SharedBlueZClient, _ board: ScanBoard
    ) async -> String? {
        let lock = BluetoothLock("the device")
        do {
            let identity = try await DeviceIdentity(of: device.address, definition, over: adapter, client) {
                device throws(BlueZError) in try await lock.take(device)
            }
            await board.update(device.address, identity)
            return nil
        } catch {
            return error.context
        }
    }
}

/// The devices that a scan has found so far.
private actor ScanBoard {
    private let report: @Sendable (DeviceScan.Change, [ScannedDevice]) -> Void
    private var devices: [BluetoothAddress: ScannedDevice] = [:]

    init(_ report: @escaping @Sendable (DeviceScan.Change, [ScannedDevice]) -> Void) { self.report = report }

    /// The found devices, sorted by signal strength. The strongest signal is first.
    var list: [ScannedDevice] {
        devices.values.sorted { ($1.rssi ?? .min, $0.address) < ($0.rssi ?? .min, $1.address) }
    }

    /// Records an event.
    ///
    /// - Returns: the device if this is its first event with an update protocol. The scan must then read the product and the version of the
    ///   device. Nil for every other event.
    func note(_ event: ScanEvent) -> BluetoothDevice? {
        switch event {
        case .appeared(let device), .changed(let device):
            let isNew = devices[device.address] == nil
            var entry = devices[device.address] ?? ScannedDevice(device)
            let wasKnown = !isNew && !entry.protocols.isEmpty
            entry.note(device)
            devices[device.address] = entry
            report(isNew ? .appeared(entry) : .changed, list)
            return wasKnown || entry.protocols.isEmpty ? nil : device
        case .disappeared(let device):
            if devices[device.address]?.disappeared(from: device.adapterName) == true { devices[device.address] = nil }
            report(.changed, list)
            return nil
        }
    }

    /// Returns the adapter that hears a device best, without the adapters in `tried`.
    ///
    /// If no such adapter hears the device: returns the adapter that found it on the first call (`tried` is empty), later nil.
    func adapter(hearing device: BluetoothDevice, except tried: [String]) -> String? {
        let heard = (devices[device.address]?.heard ?? [:]).filter { !tried.contains($0.key) }
        let best = heard.max { ($0.value ?? .min, $1.key) < ($1.value ?? .min, $0.key) }?.key
        return best ?? (tried.isEmpty ? device.adapterName : nil)
    }

    func update(_ address: BluetoothAddress, _ identity: DeviceIdentity) {
        devices[address]?.product = identity.product
        devices[address]?.version = identity.version
        report(.identified, list)
    }

    func update(_ address: BluetoothAddress, unread reason: String) {
        devices[address]?.unread = reason
        report(.changed, list)
    }
}

/// Runs `body` and cancels it after `duration`.
private func within(_ duration: Duration, _ body: @escaping @Sendable () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await Task.sleep(for: duration) }
        group.addTask { try await body() }
        defer { group.cancelAll() }
        try await group.next()
    }
}
