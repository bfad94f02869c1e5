import OTABlueZ

/// The security of the Bluetooth link over which a result was received.
struct LinkSummary: Encodable, Sendable {
    let encrypted: Bool
    /// Nil if another program made the bond: BlueZ does not report whether it is authenticated.
    let authenticated: Bool?

    init(_ security: LinkSecurity) {
        encrypted = security.isEncrypted
        authenticated = security.isAuthenticated
    }

    /// The text for the user.
    var text: String {
        switch (encrypted, authenticated) {
        case (false, _): "not encrypted"
        case (true, true?): "encrypted and authenticated"
        case (true, false?): "encrypted, but the device is not authenticated"
        case (true, nil): "encrypted; not known whether the bond is authenticated"
        }
    }
}
