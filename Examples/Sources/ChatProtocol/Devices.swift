import BlueZ

/// The devices in range that advertise this session. Every device can do this, so this value trusts none of them: it gives each caller its
/// turn, and each failed attempt makes the wait before the next attempt to this device longer.
struct Devices: Sendable {
    struct Device: Sendable {
        /// The number in the list of peers. It never becomes the number of another device, so a user who types it gets the peer that the
        /// user has seen, although peers appear and disappear.
        fileprivate let number: Int
        var name: String
        var id: PeerID?
        var isCalling = false
        /// Whether this peer does not answer the present call, because the user has refused it.
        var isIgnored = false
        /// Whether the user has refused a link with this peer.
        fileprivate var isRefused = false
        /// The end of the chat that followed the call. Nil: the call is new.
        fileprivate var answered: Duration?
        fileprivate var failures = 0
        /// The end of the wait after a failed attempt.
        fileprivate var earliest = Duration.zero
        /// Whether the device has proved once that it knows the session.
        fileprivate var isProven = false
        /// The place in the queue of callers.
        fileprivate var turn = 0

        fileprivate var place: (Int, Int) { (isProven ? 0 : 1, turn) }

        /// The time of the next attempt. A scan pauses, so this peer sees the end of an answered call late.
        fileprivate var due: Duration { max(earliest, answered.map { $0 + .seconds(6) } ?? .zero) }
    }

    private var devices: [BluetoothAddress: Device] = [:]
    private var numbers = 0
    private var turns = 0

    subscript(address: BluetoothAddress) -> Device? { devices[address] }

    /// The peers in range, in the order in which they were found.
    var peers: [Messenger.Peer] {
        devices.filter { $0.value.id != nil }.map { .init(number: $1.number, name: $1.name, address: $0) }
            .sorted { $0.number < $1.number }
    }

    /// Finds the peers with a number, an address or a name. The number of a peer that is out of range finds no peer, also if a stranger has
    /// this number as its name.
    func addresses(of text: String) -> [BluetoothAddress] {
        if let number = Int(text), "\(number)" == text, 1...max(1, numbers) ~= number {
            return peers.filter { $0.number == number }.map(\.address)
        }
        return peers.filter { Self.matches(text, $0.name, $0.address) }.map(\.address)
    }

    /// Whether a device has the wanted name or address. An address is no name: every program can copy the address of a peer as its name.
    static func matches(_ text: String, _ name: String, _ address: BluetoothAddress) -> Bool {
        BluetoothAddress(text).map { $0 == address } ?? (text == name)
    }

    /// The identities of the peers in range that have a wanted name or address, without the devices that the user has refused.
    func identities(where isWanted: (String, BluetoothAddress) -> Bool) -> Set<PeerID> {
        Set(devices.compactMap { !$1.isRefused && isWanted($1.name, $0) ? $1.id : nil })
    }

    /// The name of the wanted peer with this identity.
    func name(of peer: PeerID, where isWanted: (String, BluetoothAddress) -> Bool) -> String? {
        devices.filter { $1.id == peer && isWanted($1.name, $0) }.map(\.value.name).min()
    }

    func isCalled(by peer: PeerID) -> Bool { devices.values.contains { $0.id == peer && $0.isCalling } }

    // MARK: - What a scan reports

    /// Adds what a device advertises. Returns whether the device is a new peer in range.
    mutating func sight(_ address: BluetoothAddress, _ name: String, _ kind: Announcement.Kind, own: PeerID) -> Bool {
        var device = devices[address] ?? newDevice(name)
        // After a connection, bluetoothd replaces the advertised name with another one.
        if device.name == "\(address)" { device.name = name }
        defer { devices[address] = device }
        switch kind {
        case .presence(let peer):
            (device.isCalling, device.isIgnored, device.answered) = (false, false, nil)
            guard peer != own, peer != device.id else { return false }
            (device.id, device.name, device.isRefused) = (peer, name, false)
            return true
        case .call(let callee):
            if callee == own, !device.isCalling { device.turn = nextTurn() }
            device.isCalling = callee == own
            return false
        }
    }

    private mutating func newDevice(_ name: String) -> Device {
        numbers += 1
        return Device(number: numbers, name: name)
    }

    /// Notes the peer that a device is: it has proved that it knows the session.
    mutating func identify(_ address: BluetoothAddress, as peer: PeerID) {
        devices[address]?.id = peer
        devices[address]?.isProven = true
    }

    /// Removes a device. Returns its name if it is a peer.
    mutating func vanish(_ address: BluetoothAddress) -> String? {
        guard let device = devices.removeValue(forKey: address), device.id != nil else { return nil }
        return device.name
    }

    mutating func refuse(_ address: BluetoothAddress) {
        devices[address]?.isRefused = true
        ignoreCalls { other, _ in other == address }
    }

    mutating func ignoreCalls(where isIgnored: (BluetoothAddress, Device) -> Bool) {
        for (address, device) in devices where device.isCalling && isIgnored(address, device) {
            devices[address]?.isIgnored = true
        }
    }

    /// Notes that a chat with this peer has ended, so that its call is probably over.
    mutating func endCalls(of peer: PeerID, _ address: BluetoothAddress?, at now: Duration) {
        for (other, device) in devices where device.isCalling && (device.id == peer || other == address) {
            devices[other]?.answered = now
        }
    }

    // MARK: - The queue of callers

    /// Returns the caller to answer now: the one that has waited longest since its call or since the last attempt. A peer that is known
    /// from an earlier link is first.
    func caller(at now: Duration, where isWelcome: (BluetoothAddress, Device) -> Bool) -> BluetoothAddress? {
        callers(where: isWelcome).filter { $0.value.due <= now }.min { $0.value.place < $1.value.place }?.key
    }

    /// The time of the next attempt, if each caller has to wait now.
    func deadline(where isWelcome: (BluetoothAddress, Device) -> Bool) -> Duration? {
        callers(where: isWelcome).map(\.value.due).min()
    }

    private func callers(where isWelcome: (BluetoothAddress, Device) -> Bool) -> [BluetoothAddress: Device] {
        devices.filter { $0.value.isCalling && !$0.value.isIgnored && isWelcome($0.key, $0.value) }
    }

    private mutating func nextTurn() -> Int {
        turns += 1
        return turns
    }

    /// Moves a caller to the end of the queue.
    mutating func attempt(_ address: BluetoothAddress) {
        let turn = nextTurn()
        devices[address]?.turn = turn
    }

    /// Counts a failed attempt. The waits are 0.5, 1, 2, 4, 8, 16 and 30 s. They start with 8 s for a device that does not know the session.
    ///
    /// - Returns: whether to show the failure: it is the first one, and the call is new.
    @discardableResult
    mutating func fail(_ address: BluetoothAddress, isStranger: Bool = false, at now: Duration) -> Bool {
        guard var device = devices[address] else { return false }
        defer { devices[address] = device }
        let isNew = device.failures == 0 && device.answered == nil
        device.failures = max(isStranger ? 5 : 1, device.failures + 1)
        device.earliest = now + min(.seconds(30), .milliseconds(500 << min(device.failures - 1, 6)))
        return isNew
    }

    mutating func fail(_ peer: PeerID, at now: Duration) {
        for (address, device) in devices where device.id == peer { fail(address, at: now) }
    }

    mutating func succeed(_ address: BluetoothAddress) {
        devices[address]?.failures = 0
        devices[address]?.earliest = .zero
    }
}
