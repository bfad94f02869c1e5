public import BlueZ
public import DBus
public import Logging
public import OTAEngine
public import OTAUpdate
import Synchronization

/// The transport to one device over Bluetooth LE.
public final class BlueZTransport: Transport {
    private let state: TransportState
    private let responder: PairingResponder
    private let requirement: LinkRequirement
    private let findsNewAddress: Bool
    private let bonds: (any BondRecords)?
    private let settles: (@Sendable (BluetoothDevice, _ isDevice: Bool) async -> Void)?

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
    ///   - requirement: the security that each link must have before its first request.
    ///   - bonds: the records of the bonds that otaflash has made; nil: no records.
    ///   - client: the client. All links of the transport open over this client.
    ///   - findsNewAddress: whether a restarted device is searched under a new address. Pass false if several devices with the same name
    ///     are updated at once: each of them could be taken for another one.
    ///   - takesOver: whether another program's link to the device is ended first. If the link stayed connected, the subscriptions and
    ///     sockets of the other program would block this program.
    ///   - isUrgent: returns true if the next link is urgent; nil: no link is urgent. An urgent link opens before the waiting links of
    ///     other transports that are not urgent.
    ///   - settles: is called for each candidate that `admits` has checked (`Transport.runLink(rejecting:opened:receive:)`), at the end of
    ///     its link. `isDevice` is true if the candidate was accepted as the device.
    package init(
        _ address: BLEAddress, services: Set<UInt128>, adapter: String?, pairing responder: PairingResponder,
        requiring requirement: LinkRequirement = .none, bonds: (any BondRecords)? = nil,
        sharing client: SharedBlueZClient, limit: Duration = .seconds(10), findsNewAddress: Bool = true,
        takesOver: Bool = true, isUrgent: (@Sendable () -> Bool)? = nil,
        admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)? = nil,
        settles: (@Sendable (BluetoothDevice, _ isDevice: Bool) async -> Void)? = nil
    ) {
        self.responder = requirement == .none ? responder : responder.requiringAuthentication
        (self.requirement, self.bonds, self.findsNewAddress) = (requirement, bonds, findsNewAddress)
        self.settles = settles
        let names = SeenNames()
        let services = Set(services.map { BluetoothUUID($0) })
        var request = ConnectionRequest(address.target(services: services), adapter: adapter, services: services)
        // Before the first connection, bluetoothd reports the advertised name. After a connection, it reports the name in the GAP service.
        request.admits = { device throws(BlueZError) in
            await names.note(device)
            try await admits?(device)
        }
        request.limit = limit
        request.isUrgent = isUrgent
        request.takesOver = takesOver
        state = TransportState(request, client, names)
    }

    /// Scans for the device if necessary, connects to the device, and runs the link until the link ends.
    ///
    /// After the first link, the transport connects only to the same address, even if another matching device comes into range.
    ///
    /// - Throws: `unavailable` if there is no bus, no bluetoothd or no powered adapter; `noSuchDevice` if no device or more than one
    ///   device matches (the detail lists the matching devices); `timedOut`; `lost`; the error of `admits`, as a `LinkError`.
    public func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        do throws(LinkError) { return try await runLink(await state.nextRequest, opened, receive) } catch {
            guard error.code == .noSuchDevice, let program = try await knownProgram() else { throw error }
            do throws(LinkError) { return try await runLink(program: program, opened, receive) } catch let other {
                throw other.code == .inUse ? other : error
            }
        }
    }

    /// Returns the address of a program that an earlier, interrupted update has named for this device, if bluetoothd knows it; nil if a link
    /// was open before. A scan for the device itself has just ended.
    private func knownProgram() async throws(LinkError) -> BluetoothAddress? {
        guard requirement == .none, let scan = await state.firstScan else { return nil }
        let adapter = await state.request.adapter
        return try await translated { () async throws -> BluetoothAddress? in
            guard let name = try await state.shared.adapter(adapter) else { return nil }
            return try await state.shared.client().knownAddress(ofName: scan.name, over: name)
        }
    }

    /// Opens a link to the program of the device that runs (`LinkTarget.program`). Each link to the address of the device begins with a new
    /// attribute table, because another program can have the same address.
    public func runLink(
        to target: LinkTarget, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        guard target == .program, requirement == .none, let scan = await state.programScan else {
            return try await runLink(opened: opened, receive: receive)
        }
        await state.refresh()
        let (adapter, limit) = (await state.request.adapter, await state.request.limit)
        let found = try await translated { () async throws in
            try await state.shared.client().find(scan, over: adapter, limit: limit)
        }
        guard found.address != scan.address else { return try await runLink(await state.request, opened, receive) }
        return try await runLink(program: found.address, opened, receive)
    }

    /// Opens a link to a program with another address. The next links to the device itself do not change. As for a candidate, the transport
    /// does not pair, and does not end another program's link.
    private func runLink(
        program address: BluetoothAddress, _ opened: (any Link) -> Void, _ receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        try await translated { () async throws in
            var request = await state.request
            request.target = .address(address)
            (request.takesOver, request.refreshesCache) = (false, false)
            let name = await state.programScan?.name
            return try await state.shared.client().withConnection(request, pairing: .refusing) { connection in
                guard !connection.isShared else {
                    throw BlueZError(.acquiredElsewhere, "another program uses the device")
                }
                var properties = LinkProperties(connection)
                (properties.programName, properties.hasOtherAddress) = (name, true)
                let link = QueuedLink(properties)
                let commands = BlueZCommands(connection, receive, pairs: false)
                opened(link)
                return await commands.run(link)
            }
        }
    }

    private func runLink(
        _ request: ConnectionRequest, _ opened: (any Link) -> Void, _ receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        try await translated { () async throws in
            let client = try await state.shared.client()
            return try await client.withConnection(request, pairing: responder) { connection in
                try await connection.secure(requirement, bonds)
                let known = await client.knownAddresses(over: connection.device.adapterName)
                await state.connected(connection, others: known)
                var properties = LinkProperties(connection)
                // After a change of a private address, no feature would show the device.
                if requirement == .none, connection.device.hasFixedAddress {
                    properties.programName = ProgramScan(connection.device.address).name
                }
                let link = QueuedLink(properties)
                let commands = BlueZCommands(connection, receive, pairs: !responder.refusesAll)
                opened(link)
                let end = await commands.run(link)
                await state.disconnected(
                    hasNotified: commands.hasNotified, mayHaveStaleTable: commands.mayHaveStaleTable)
                await state.secured(await connection.security(bonds))
                return end
            }
        }
    }

    /// The security of the links so far; nil if no link was open.
    package var security: LinkSecurity? { get async { await state.security } }

    /// Scans for the device and for candidates (`Transport.runLink(rejecting:opened:receive:)`).
    ///
    /// A candidate has the same name and an update service, and a random address that was unknown before. The transport does not pair with
    /// a candidate, and does not end another program's link to it. There is no candidate for a device with a bond, because bluetoothd
    /// resolves its private address, and none for a device with a public address or without a name.
    public func runLink(
        rejecting rejected: Set<String>, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        // The link to a candidate would not have the required security.
        guard requirement == .none, findsNewAddress else { return try await runLink(opened: opened, receive: receive) }
        let likeness: Likeness
        switch await state.likeness {
        case .success(let known): likeness = known
        case .failure(let reason):
            do throws(LinkError) { return try await runLink(opened: opened, receive: receive) } catch {
                throw LinkError(error.code, "\(error.detail); \(reason.text)")
            }
        }
        let adapter = await state.request.adapter
        let limit = await state.request.limit
        let candidate = try await translated { () async throws in
            try await state.shared.client().find(likeness, rejecting: rejected, over: adapter, limit: limit)
        }
        // The scan has just heard the device.
        guard let candidate else { return try await runLink(await state.request, opened, receive) }
        do throws(LinkError) {
            return try await runLink(candidate: candidate, opened: opened, receive: receive)
        } catch {
            throw LinkError(error.code, error.detail, candidate: candidate.address.description)
        }
    }

    private func runLink(
        candidate: BluetoothDevice, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        try await translated { () async throws in
            var request = await state.request
            request.target = .address(candidate.address)
            (request.takesOver, request.refreshesCache) = (false, false)
            let client = try await state.shared.client()
            let isDevice = Atomic(false)
            do {
                let end = try await client.withConnection(request, pairing: .refusing) { connection in
                    guard !connection.isShared else {
                        throw BlueZError(.acquiredElsewhere, "another program uses the device")
                    }
                    let link = CandidateLink(LinkProperties(connection, candidate: candidate.address.description)) {
                        isDevice.store(true, ordering: .relaxed)
                    }
                    let commands = BlueZCommands(connection, receive, pairs: false)
                    opened(link)
                    let end = await commands.run(link.queued)
                    if isDevice.load(ordering: .relaxed) {
                        await state.connected(connection, others: [])
                        await state.secured(await connection.security(bonds))
                    }
                    return end
                }
                await settles?(candidate, isDevice.load(ordering: .relaxed))
                return end
            } catch {
                await settles?(candidate, isDevice.load(ordering: .relaxed))
                throw error
            }
        }
    }

    private func translated<Result>(_ body: () async throws -> Result) async throws(LinkError) -> Result {
        do { return try await body() } catch let error as LinkError { throw error } catch let error as BlueZError {
            throw LinkError(error)
        } catch {
            throw LinkError(.lost, "\(error)")
        }
    }
}

/// The state that the transport keeps from one link to the next link.
private actor TransportState {
    private(set) var request: ConnectionRequest
    /// The features of the device of the last link, or the reason why it cannot be recognized under a new address.
    private(set) var likeness: Result<Likeness, Unrecognizable> = .failure(Unrecognizable(text: "no link was open"))
    private let names: SeenNames
    /// The security of the links so far; nil if no link was open.
    private(set) var security: LinkSecurity?
    /// Whether the attribute table was read again after the last notification of the device.
    private var hasRefreshed = false
    private var hasConnected = false
    nonisolated let shared: SharedBlueZClient

    init(_ request: ConnectionRequest, _ shared: SharedBlueZClient, _ names: SeenNames) {
        self.request = request
        self.shared = shared
        self.names = names
    }

    /// The request for the next link. An urgent link is to a device that restarts, and its restart may take minutes.
    var nextRequest: ConnectionRequest {
        var next = request
        next.hearsFirst = request.isUrgent?() ?? false
        return next
    }

    /// Makes the next link begin with a new attribute table.
    func refresh() { request.refreshesCache = true }

    /// The scan for a program of the device; nil if the address of the device is not known.
    var programScan: ProgramScan? {
        guard case .address(let address) = request.target else { return nil }
        return ProgramScan(address)
    }

    /// The scan for a program of the device before the first link; nil if a link was open before.
    var firstScan: ProgramScan? { hasConnected ? nil : programScan }

    /// Records the device of a link that has just opened.
    ///
    /// - Parameter others: the addresses that bluetoothd knows now.
    func connected(_ connection: DeviceConnection, others: Set<BluetoothAddress>) async {
        let device = connection.device
        hasConnected = true
        request.target = .address(device.address)
        request.refreshesCache = false
        await names.note(device)
        let all = await names.all
        let earlier = (try? likeness.get().others) ?? []
        likeness = Likeness.of(
            device, names: all, services: request.services.intersection(connection.services.map(\.uuid)),
            others: earlier.union(others).subtracting([device.address]))
    }

    /// Records the security of a link that ends.
    func secured(_ security: LinkSecurity) {
        self.security = self.security?.joined(security) ?? security
        if security.isEncrypted { likeness = .failure(.paired) }
    }

    /// Decides whether the next link begins with a new attribute table. Only one new table is read until the device has notified a value,
    /// because a second one would not differ.
    func disconnected(hasNotified: Bool, mayHaveStaleTable: Bool) {
        if hasNotified { hasRefreshed = false }
        request.refreshesCache = mayHaveStaleTable && !hasRefreshed
        hasRefreshed = hasRefreshed || request.refreshesCache
    }
}

/// The names under which bluetoothd has reported the device.
private actor SeenNames {
    private(set) var all: Set<String> = []

    func note(_ device: BluetoothDevice) { if let name = device.name { all.insert(name) } }
}

/// A link to a candidate. It reports that the session has accepted the candidate.
private final class CandidateLink: Link {
    let queued: QueuedLink
    private let accepted: @Sendable () -> Void

    init(_ properties: LinkProperties, accepted: @escaping @Sendable () -> Void) {
        queued = QueuedLink(properties)
        self.accepted = accepted
    }

    var properties: LinkProperties { queued.properties }

    func submit(_ command: LinkCommand) { queued.submit(command) }
    func acceptCandidate() { accepted() }
    func close() { queued.close() }
}
