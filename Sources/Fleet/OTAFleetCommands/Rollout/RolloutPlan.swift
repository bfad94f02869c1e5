import OTACommands
import OTAFirmware
import OTAFleet

/// Parses the options of `rollout create` that describe the plan.
enum RolloutPlan {
    /// Parses `product=P,running=<1.4.0,group=G`.
    static func selection(_ text: String) throws(Failure) -> Selection {
        let rule = "product=NAME, and optionally running='<1.4.0' and group=NAME, separated by commas"
        var product: ProductName?
        var running: VersionCondition?
        var groups: [GroupName] = []
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let (name, value) = pair(item)
            switch name {
            case "product" where product == nil: product = try parsed(value, "--select", rule) { ProductName($0) }
            case "running" where running == nil:
                running = try parsed(value, "--select", VersionCondition.rule) {
                    VersionCondition($0)
                }
            case "group": groups.append(try parsed(value, "--select", rule) { GroupName($0) })
            default:
                let nearest = Suggestion.nearest(to: name, in: ["product", "running", "group"])
                // A repeated word is written correctly.
                let meant = nearest == name ? nil : nearest.map { "\($0)=\(value)" }
                throw wrong(String(item), "--select", rule, meant: meant)
            }
        }
        guard let product else { throw wrong(text, "--select", rule) }
        return Selection(product: product, running: running, groups: groups)
    }

    /// Parses the stages, and the conditions between two stages.
    ///
    /// - Parameters:
    ///   - text: such as `1%,10%,100%`. A stage can also be `group=NAME`, or the IDs of devices with `+` between them.
    ///   - advance: such as `95%,min=20,soak=1h`.
    static func stages(_ text: String, advance: String) throws(Failure) -> [Stage] {
        let rule =
            "percentages in ascending order, such as 1%,10%,100%; a stage can also be group=NAME or devices=ID+ID"
        var stages: [Stage] = []
        let conditions = try Conditions(advance, "--advance", "such as 95%,min=20,soak=1h", allowsSoak: true)
        var last = 0
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let audience: Stage.Audience
            switch pair(item) {
            case ("group", let value): audience = .group(try parsed(value, "--stages", rule) { GroupName($0) })
            case ("devices", let value):
                var devices: [DeviceID] = []
                for device in value.split(separator: "+", omittingEmptySubsequences: false) {
                    devices.append(try parsed(device, "--stages", rule) { DeviceID($0) })
                }
                audience = .devices(devices)
            default:
                guard let percent = percent(item), (1...100).contains(percent), percent > last else {
                    throw wrong(String(item), "--stages", rule)
                }
                last = percent
                audience = .percent(percent)
            }
            guard
                let stage = Stage(
                    audience, successPercent: conditions.percent ?? 95, minimum: conditions.minimum ?? 1,
                    soakSeconds: conditions.soak ?? 0)
            else { throw wrong(advance, "--advance", "numbers in their ranges, such as 95%,min=20,soak=1h") }
            stages.append(stage)
        }
        return stages
    }

    /// Parses the condition for a halt, such as `5%,min=10`.
    static func halt(_ text: String) throws(Failure) -> Rollout.Halt {
        let rule = "a percentage and a number of devices, such as 5%,min=10"
        let conditions = try Conditions(text, "--halt", rule, allowsSoak: false)
        guard let halt = Rollout.Halt(failedPercent: conditions.percent ?? 5, minimum: conditions.minimum ?? 10)
        else { throw wrong(text, "--halt", rule) }
        return halt
    }

    private struct Conditions {
        var percent, minimum, soak: Int?

        init(_ text: String, _ option: String, _ rule: String, allowsSoak: Bool) throws(Failure) {
            for item in text.split(separator: ",", omittingEmptySubsequences: false) {
                switch pair(item) {
                case ("min", let value) where minimum == nil: minimum = try parsed(value, option, rule) { Int($0) }
                case ("soak", let value) where soak == nil && allowsSoak:
                    soak = value == "0" ? 0 : try parsed(value, option, rule) { seconds($0) }
                default:
                    guard percent == nil, let number = RolloutPlan.percent(item) else {
                        throw wrong(String(item), option, rule)
                    }
                    percent = number
                }
            }
        }
    }

    /// Parses a time such as `30m`, `1h` or `7d`. Returns the seconds.
    static func seconds(_ text: Substring) -> Int? {
        let units: [Character: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), let number = Int(text.dropLast()), number > 0,
            number <= 31_536_000 / unit
        else { return nil }
        return number * unit
    }

    private static func percent(_ text: Substring) -> Int? { text.hasSuffix("%") ? Int(text.dropLast()) : nil }

    private static func pair(_ item: Substring) -> (String, Substring) {
        let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.count == 2 ? (String(parts[0]), parts[1]) : ("", item)
    }

    private static func parsed<Value>(
        _ text: Substring, _ option: String, _ rule: String, _ parse: (Substring) -> Value?
    ) throws(Failure) -> Value {
        guard let value = parse(text) else { throw wrong(String(text), option, rule) }
        return value
    }

    /// - Parameter meant: the value that the user probably meant; nil: no value is similar.
    static func wrong(_ text: String, _ option: String, _ rule: String, meant: String? = nil) -> Failure {
        let question = meant.map { "did you mean \($0)? " } ?? ""
        return .usage("'\(text)' is not a valid value for \(option)", hint: "\(question)give \(rule)")
    }
}
