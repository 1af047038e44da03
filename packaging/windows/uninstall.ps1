# Removes the service and its firewall rule. Run as administrator, where edged-service.exe is.
# Configuration and recorded data in %ProgramData%\edged stay.
$ErrorActionPreference = "Continue"
& .\edged-service.exe stop
& .\edged-service.exe uninstall
Remove-NetFirewallRule -Name "edged-mcp" -ErrorAction SilentlyContinue
