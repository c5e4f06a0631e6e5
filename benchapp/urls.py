from django.urls import include, path

handler403 = "inspector.web.access.deny"
handler500 = "inspector.web.health.broken"

urlpatterns = [path("", include("inspector.urls"))]
