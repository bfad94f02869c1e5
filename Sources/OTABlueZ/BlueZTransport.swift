public import BlueZ
public import DBus
public import Logging
public import OTATransport
public import OTAUpdate

/// The transport to one device over Bluetooth LE.
public final class BlueZTransport: Transport {
    private let state: TransportState
    private let responder: PairingResponder

    /// Creates a transport.
    ///
    /// - Parameters:
    ///   - address: the device, or the rule that selects the device.
    ///   - services: the UUIDs of the update services. ``BLEAddress/only`` selects the device that advertises one of these services.
    ///   - adapter: the name of the adapter, such as `hci1`; nil for the first powered adapter.
    ///   - responder: answers the pairing requests of a device that requires pairing.
    ///   - links: records the links that this program must end. If this program is killed, another program can read the recorded links
    ///     and end them.
    ///   - limit: the time limit of each step before a link is open. The steps are: wait for the adapter, scan, end an earlier link,
    ///     connect, discover the services.
    ///   - admits: checks the found device before each link is opened. If `admits` throws an error, `runLink` throws the same error as a
    ///     `LinkError`.
    public convenience init(
        _ address: BLEAddress, services: Set<UInt128>, adapter: String? = nil,
        pairing responder: PairingResponder = .unattended,
        bus: DBusBus = .system, logger: Logger = Logger(label: "ota.bluez"), links: (any LinkAccount)? = nil,
        limit: Duration = .seconds(10),
        admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)? = nil
    ) {
        self.init(
            address, services: services, adapter: adapter, pairing: responder,
            sharing: SharedBlueZClient(bus, logger: logger, links: links), limit: limit, admits: admits)
    }

    /// Creates a transport that shares a client with other transports.
    ///
    /// - Parameters:
    ///   - client: the client. All links of the transport open over this client.
    ///   - isUrgent: returns true if the next link is urgent; nil: no link is urgent. An urgent link opens before the waiting links of
    ///     other transports that are not urgent.
    package init(
        _ address: BLEAddress, services: Set<UInt128>, adapter: String?, pairing responder: PairingResponder,
        sharing client: SharedBlueZClient, limit: Duration = .seconds(10),
        isUrgent: (@Sendable () -> Bool)? = nil,
        admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)? = nil
    ) {
        self.responder = responder
        let services = Set(services.map { BluetoothUUID($0) })
        var request = ConnectionRequest(address.target(services: services), adapter: adapter, services: services)
        request.admits = admits
        request.limit = limit
        request.isUrgent = isUrgent
        // If another program has a link to the device, end this link first. If the link stayed connected, the subscriptions and sockets
        // of the other program would block this program.
        request.takesOver = true
        state = TransportState(request, client)
    }

    /// Scans for the device if necessary, connects to the device, and runs the link until the link ends.
    ///
    /// After the first link, the transport connects only to the same address, even if another matching device comes into range.
    ///
    /// - Throws: `unavailable` if there is no bus, no bluetoothd or no powered adapter; `noSuchDevice` if no device or more than one
    ///   device matches (the detail lists the matching devices); `timedOut`; `lost`; the error of `admits`, as a `LinkError`.
    public func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        do {
            let client = try await state.shared.client()
            return try await client.withConnection(await state.request, pairing: responder) { connection in
                await state.connected(to: connection.device)
                let link = QueuedLink(LinkProperties(connection))
                let commands = BlueZCommands(connection, receive, pairs: !responder.refusesAll)
                opened(link)
                let end = await commands.run(link)
                await state.disconnected(
                    hasNotified: commands.hasNotified, mayHaveStaleTable: commands.mayHaveStaleTable)
                return end
            }
        } catch let error as BlueZError {
            throw LinkError(error)
        } catch {
            throw LinkError(.lost, "\(error)")
        }
    }
}

/// The state that the transport keeps from one link to the next link.
private actor TransportState {
    private(set) var request: ConnectionRequest
    /// Whether the attribute table was read again after the last notification of the device.
    private var hasRefreshed = false
    nonisolated let shared: SharedBlueZClient

    init(_ request: ConnectionRequest, _ shared: SharedBlueZClient) {
        self.request = request
        self.shared = shared
    }

    func connected(to device: BluetoothDevice) {
        request.target = .address(device.address)
        request.refreshesCache = false
    }

    /// Decides whether the next link begins with a new attribute table. Only one new table is read until the device has notified a value,
    /// because a second one would not differ.
    func disconnected(hasNotified: Bool, mayHaveStaleTable: Bool) {
        if hasNotified { hasRefreshed = false }
        request.refreshesCache = mayHaveStaleTable && !hasRefreshed
        hasRefreshed = hasRefreshed || request.refreshesCache
    }
}
