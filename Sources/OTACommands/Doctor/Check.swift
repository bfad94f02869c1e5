/// The result of one check of `doctor`.
package struct Check: Encodable, Sendable, Equatable {
    package enum State: String, Encodable, Sendable {
        case ok
        /// A push works, but a setting makes it slower or less reliable.
        case slow
        /// A push cannot work.
        case missing
    }
    /// The check's name; it is the same in every version.
    package let name: String
    package let state: State
    /// The finding.
    package let message: String
    /// The steps to fix the problem, with the commands; one step per element.
    package let advice: [String]?

    static func ok(_ name: String, _ message: String) -> Check {
        Check(name: name, state: .ok, message: message, advice: nil)
    }

    static func slow(_ name: String, _ message: String, _ advice: String...) -> Check {
        Check(name: name, state: .slow, message: message, advice: advice)
    }

    static func missing(_ name: String, _ message: String, _ advice: String...) -> Check {
        Check(name: name, state: .missing, message: message, advice: advice)
    }
}
