public import BlueZ
public import DBus
public import Logging
public import OTATransport
public import OTAUpdate

/// The way to one device over Bluetooth LE.
public final class BlueZTransport: Transport {
    private let state: TransportState
    private let responder: PairingResponder

    /// - Parameters:
    ///   - services: what a device is updated by; `BLEAddress.only` looks for one that has one of them.
    ///   - adapter: such as `hci1`; nil: the first that is powered.
    ///   - responder: for a device that demands to be paired.
    ///   - links: is told of each link that is made.
    ///   - limit: how long scanning, connecting and discovering may take, each.
    ///   - admits: asked of the device that was found, before each link; what it throws ends the attempt.
    public init(
        _ address: BLEAddress, services: Set<UInt128>, adapter: String? = nil,
        pairing responder: PairingResponder = .unattended,
        bus: DBusBus = .system, logger: Logger = Logger(label: "ota.bluez"), links: (any LinkAccount)? = nil,
        limit: Duration = .seconds(10),
        admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)? = nil
    ) {
        self.responder = responder
        let services = Set(services.map { BluetoothUUID($0) })
        var request = ConnectionRequest(address.target(services: services), adapter: adapter, services: services)
        request.admits = admits
        request.limit = limit
        // What another program has subscribed to or acquired would be in the way.
        request.takesOver = true
        state = TransportState(request, bus, logger, links)
    }

    /// Scans where it must, connects and discovers.
    ///
    /// Once a device was connected it is meant from then on, by its address, whatever else comes into reach.
    ///
    /// - Throws: `unavailable` (no bus, bluetoothd or powered adapter), `noSuchDevice` (its detail lists the candidates if there
    ///   were several), `timedOut`, `lost`.
    public func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        do {
            let client = try await state.client()
            return try await client.withConnection(await state.request, pairing: responder) { connection in
                await state.connected(to: connection.device)
                let link = BlueZLink(connection)
                return await withTaskGroup(of: Void.self) { group in
                    group.addTask { await link.run() }
                    let result = await body(link)
                    link.close()
                    group.cancelAll()
                    await state.disconnected(staleTable: link.hasStaleTable)
                    return result
                }
            }
        } catch let error as BlueZError {
            throw LinkError(error)
        } catch {
            throw LinkError(.lost, "\(error)")
        }
    }
}

/// What lasts from one link to the next.
private actor TransportState {
    private(set) var request: ConnectionRequest
    private let bus: DBusBus
    private let logger: Logger
    private let links: (any LinkAccount)?
    private var open: BlueZClient?

    init(_ request: ConnectionRequest, _ bus: DBusBus, _ logger: Logger, _ links: (any LinkAccount)?) {
        self.request = request
        self.bus = bus
        self.logger = logger
        self.links = links
    }

    /// A new one when the bus has ended the old one.
    func client() async throws(BlueZError) -> BlueZClient {
        if let open, await open.isOpen { return open }
        let client = try await BlueZClient.open(bus, logger: logger, links: links)
        open = client
        return client
    }

    func connected(to device: BluetoothDevice) {
        request.target = .address(device.address)
        request.refreshesCache = false
    }

    func disconnected(staleTable: Bool) { request.refreshesCache = staleTable }
}
