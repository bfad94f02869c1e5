/// A property of an exported interface. Its value is kept by the connection, which answers whoever reads it;
/// `DBusConnection.update` gives it another one.
public struct DBusProperty: Sendable {
    /// What `PropertiesChanged` tells of a new value (annotation `EmitsChangedSignal`).
    public enum Announcement: String, Sendable {
        case value = "true"
        /// That there is one.
        case invalidation = "invalidates"
        case nothing = "false"
        /// It never changes.
        case constant = "const"
    }

    /// Called before a value that somebody else set, which is of the right type, is taken; what it throws refuses it, as with
    /// `DBusMethod.Handler`.
    public typealias Setter = @Sendable (DBusValue) async throws -> Void

    public let name: String
    public let value: DBusValue
    public let announcement: Announcement
    let setter: Setter?

    /// Without `setter` nobody else can set it.
    public init(
        _ name: String, _ value: DBusValue, announcing announcement: Announcement = .value, setter: Setter? = nil
    ) {
        self.name = name
        self.value = value
        self.announcement = announcement
        self.setter = setter
    }
}
