public import BlueZ

/// The security of a Bluetooth link, as far as this computer knows it.
///
/// BlueZ reports only whether a bond exists. If one exists when a link opens, bluetoothd encrypts the link with it before it sends a request.
/// BlueZ does not report whether a bond was authenticated. otaflash knows this only of its own pairings (``BondRecords``).
public struct LinkSecurity: Sendable, Equatable {
    /// True if a bond existed on each link of the task.
    public var isEncrypted: Bool
    /// True if the bond was made with a passkey or a comparison. Nil: another program made the bond, so it is not known.
    public var isAuthenticated: Bool?

    public init(isEncrypted: Bool, isAuthenticated: Bool?) {
        self.isEncrypted = isEncrypted
        self.isAuthenticated = isAuthenticated
    }

    /// The security of two links together: the lower one.
    func joined(_ other: LinkSecurity) -> LinkSecurity {
        let both = [isAuthenticated, other.isAuthenticated]
        return LinkSecurity(
            isEncrypted: isEncrypted && other.isEncrypted,
            isAuthenticated: both.contains(false) ? false : both.contains(nil) ? nil : true)
    }
}

/// The security that a task requires of a link before its first request.
public enum LinkRequirement: Sendable {
    case none
    /// A bond. A new bond must be authenticated. An existing bond of another program is accepted.
    case bond
    /// A bond that otaflash has made with a passkey or a comparison, now or before.
    case authentication
}

/// A bond between an adapter of this computer and a device.
public struct Bond: Sendable, Hashable {
    public var adapter, device: BluetoothAddress

    public init(adapter: BluetoothAddress, device: BluetoothAddress) {
        self.adapter = adapter
        self.device = device
    }
}

/// Records whether the bonds that otaflash has made were authenticated.
public protocol BondRecords: Sendable {
    /// Returns whether a bond was authenticated; nil: otaflash has not made this bond.
    func isAuthenticated(_ bond: Bond) -> Bool?
    /// Records a new bond; nil: there is no bond, so an earlier record is wrong.
    func record(_ bond: Bond, isAuthenticated: Bool?)
}

extension DeviceConnection {
    private var bond: Bond? {
        get async {
            guard let adapterAddress else { return nil }
            return Bond(adapter: adapterAddress, device: await address)
        }
    }

    /// Ensures that the link has the required security. Pairs with the device if there is no bond.
    ///
    /// - Throws: ``BlueZError/Code/pairingFailed`` if the link does not have the required security. A bond that was made on this link is then
    ///   removed.
    package func secure(_ requirement: LinkRequirement, _ records: (any BondRecords)?) async throws(BlueZError) {
        if !wasPaired, let bond = await bond { records?.record(bond, isAuthenticated: nil) }
        guard requirement != .none else { return }
        guard wasPaired else { return try await pairWithAuthentication(records) }
        switch (requirement, await bond.flatMap { records?.isAuthenticated($0) }) {
        case (_, true?), (.bond, nil), (.none, _): return
        case (_, false?):
            throw BlueZError(
                .pairingFailed, "this machine has a bond with the device that was made without authentication",
                bond: .unknown)
        case (.authentication, nil):
            throw BlueZError(
                .pairingFailed,
                "this machine has a bond with the device that otaflash has not made; BlueZ does not report whether it is authenticated",
                bond: .unknown)
        }
    }

    private func pairWithAuthentication(_ records: (any BondRecords)?) async throws(BlueZError) {
        do throws(BlueZError) { try await pair(authenticated: true) } catch {
            // Without a request to this program, the passkey cannot be the reason.
            guard error.code == .pairingFailed, error.bond == nil, !hasAuthenticated else { throw error }
            throw BlueZError(
                .pairingFailed,
                "an authenticated link is required, and the device did not pair with a passkey: \(error.context)",
                bond: .unauthenticated)
        }
        // Recorded at once: if this program is killed, the next one must know the bond.
        if let bond = await bond { records?.record(bond, isAuthenticated: true) }
    }

    /// Returns the security of the link at its end, and records a bond that was made on this link.
    package func security(_ records: (any BondRecords)?) async -> LinkSecurity {
        guard await isPaired else { return LinkSecurity(isEncrypted: false, isAuthenticated: false) }
        let bond = await bond
        if wasPaired {
            return LinkSecurity(isEncrypted: true, isAuthenticated: bond.flatMap { records?.isAuthenticated($0) })
        }
        if let bond { records?.record(bond, isAuthenticated: hasAuthenticated) }
        return LinkSecurity(isEncrypted: true, isAuthenticated: hasAuthenticated)
    }
}
